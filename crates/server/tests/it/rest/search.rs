//! Tests of `/v1/search`: what is found, within which limits, and only in the caller's view.

use serde_json::{Value, json};
use testkit::source::MockListing;
use tool::{PermissionLevel, SourceListing};

use crate::support::{FixtureServer, tools};

fn names(answer: &Value) -> Vec<&str> {
    let results = answer["results"].as_array().unwrap().iter();
    results.map(|result| result["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn results_have_a_definition_a_score_and_what_matched() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let found = ann.get("/v1/search?q=append+notes&k=1").await.expect_ok();
    let shown = ann.get("/v1/tools/notes.append").await.expect_ok();
    let result = &found["results"][0];
    assert_eq!(names(&found), ["notes.append"]);
    assert_eq!((&result["score"], &result["form"]), (&json!(1.0), &json!("full")));
    assert_eq!(result["source"], shown["source"]);
    assert_eq!(result["definition"]["inputSchema"], shown["input_schema"]);
    assert_eq!(result["definition"]["description"], shown["description"]);
    assert_eq!(result["why"][0]["word"], "append");
    assert_eq!(result["why"][0]["fields"][0], "name");
    assert_eq!((&found["tokens"], &found["left_out"]), (&result["tokens"], &json!(0)));
    // A budget without room leaves the tool out and says so.
    let found = ann.get("/v1/search?q=append+notes&k=1&budget=1").await.expect_ok();
    assert_eq!((names(&found).len(), &found["left_out"]), (0, &json!(1)));
}

#[tokio::test]
async fn a_hidden_tool_changes_nothing() {
    let tool = |name: &str, description: &str| {
        testkit::read_only_tool(name, description, &json!({"type": "object"}))
    };
    let echo = testkit::executor::echo_executor;
    let mut secret = tool("vault_keys", "Lists the zebra keys of the vault.");
    secret.traits.min_level = PermissionLevel::Owner;
    let offers = |with_secret: bool| {
        let mut all = vec![
            tools::tool_offer(tool("read_file", "Reads a file."), echo()),
            tools::tool_offer(tool("list_keys", "Lists keys of a keyboard."), echo()),
        ];
        all.extend(with_secret.then(|| tools::tool_offer(secret.clone(), echo())));
        all
    };
    let (with, without) = (
        FixtureServer::with_offers(offers(true)).await,
        FixtureServer::with_offers(offers(false)).await,
    );
    let (ann, bob) = (
        with.agent_client("ann", PermissionLevel::User).await,
        without.agent_client("ann", PermissionLevel::User).await,
    );
    for query in ["vault+keys", "zebra", "vualt", "vault_keys", "read+file&q=zebra+keys", "keys"] {
        let path = format!("/v1/search?q={query}");
        let (seen, alone) = (ann.get(&path).await.expect_ok(), bob.get(&path).await.expect_ok());
        assert_eq!(seen["results"], alone["results"], "{query}");
        assert!(!seen.to_string().contains("vault_keys\""), "{query}");
    }
    // Control: its owner finds it.
    let found = with.owner_client().await.get("/v1/search?q=zebra").await.expect_ok();
    assert_eq!(names(&found)[0], "vault_keys");
}

#[tokio::test]
async fn wrong_parameters_are_named_and_a_key_is_needed() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (query, told) in [
        ("", "the parameter `q` is missing or empty"),
        ("?q=a&k=0", "`k` must be from 1 to 100"),
        ("?q=a&limit=3", "the query: unknown parameter `limit`; use one of q, k, budget"),
    ] {
        let reply = ann.get(&format!("/v1/search{query}")).await;
        assert_eq!(reply.error(), (400, "invalid_request".to_owned(), told.to_owned()));
    }
    assert_eq!(server.keyless_client().get("/v1/search?q=a").await.status, 401);
    ann.get("/v1/search?q=a&read_only=true").await.expect_ok();
}

#[tokio::test]
async fn a_new_tool_is_found_after_its_refresh() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let before = ann.get("/v1/search?q=hovercraft").await.expect_ok();
    assert!(!names(&before).contains(&"rent_hovercraft"));
    let tool = testkit::read_only_tool("rent_hovercraft", "Rents one.", &json!({"type": "object"}));
    let offers = vec![tools::tool_offer(tool, testkit::executor::echo_executor())];
    let listing = SourceListing { offers, ..SourceListing::default() };
    server.source.set_answer(MockListing::Listing(listing));
    server.owner_client().await.post("/v1/sources/refresh", &json!({})).await.expect_ok();
    let after = ann.get("/v1/search?q=hovercraft").await.expect_ok();
    assert_eq!(names(&after), ["rent_hovercraft"]);
}
