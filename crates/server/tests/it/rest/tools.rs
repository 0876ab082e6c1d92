//! Tests of tools over REST: `/v1/tools`.

use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::support::{Client, FixtureServer, tools};

fn names(list: &Value) -> Vec<String> {
    let tools = list["tools"].as_array().unwrap();
    let name = |tool: &Value| tool.get("name").unwrap_or(&tool["function"]["name"]).clone();
    tools.iter().map(|tool| name(tool).as_str().unwrap().to_owned()).collect()
}

/// A hidden tool and an unknown one get the same response except for the name.
async fn hidden_is_unknown(client: &Client, path: impl Fn(&str) -> String) {
    let hidden = client.get(&path("owner")).await;
    let unknown = client.get(&path("nobody")).await;
    assert_eq!(hidden.status, unknown.status);
    assert_eq!(hidden.text().replace("owner", "nobody"), unknown.text());
    assert_eq!(hidden.error().0, 404);
}

#[tokio::test]
async fn a_tool_is_told_natively() {
    let server = FixtureServer::new().await;
    let list =
        server.agent_client("ann", PermissionLevel::User).await.get("/v1/tools").await.expect_ok();
    assert_eq!(
        names(&list)[..3],
        ["needs.guest".to_owned(), "needs.user".to_owned(), "notes.append".to_owned()]
    );
    assert_eq!((&list["next_cursor"], &list["catalog"]), (&json!(null), &json!(2)));
    let tool = &list["tools"][2];
    let digest = tool["definition"].as_str().unwrap();
    assert!(digest.starts_with("sha256:") && digest.len() == 71);
    let expected = json!({
        "name": "notes.append", "alias": "notes_append", "source": "s", "title": null,
        "description": "The tool notes.append.",
        "input_schema": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}},
        "output_schema": null,
        "traits": {"level": "guest", "safety": "safe", "effects": ["read_only"],
            "destructive": false, "idempotent": false, "categories": [], "scopes": [],
            "callers": ["direct"], "timeout_ms": null},
        "definition": digest,
    });
    assert_eq!(*tool, expected);
    for path in ["/v1/tools/notes.append", "/v1/tools/notes_append", "/v1/tools/notes%2Eappend"] {
        assert_eq!(
            server.agent_client("ann", PermissionLevel::User).await.get(path).await.expect_ok(),
            expected
        );
    }
}

#[tokio::test]
async fn a_tool_is_told_as_a_provider_wants_it() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let one = |query: &'static str| {
        let ann = ann.clone();
        async move { ann.get(&format!("/v1/tools/notes.append?{query}")).await.expect_ok() }
    };
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}});
    let openai = |name: &str| {
        let function =
            json!({"name": name, "description": "The tool notes.append.", "parameters": schema});
        json!({"type": "function", "function": function})
    };
    assert_eq!(one("format=openai_chat").await, openai("notes_append"));
    assert_eq!(one("format=openai&names=safe").await, openai("notes_append"));
    assert_eq!(one("format=openai&names=native").await, openai("notes.append"));
    assert_eq!(one("format=mcp").await["name"], "notes.append");
    assert_eq!(one("format=mcp&names=safe").await["name"], "notes_append");
    for (query, name) in [
        ("format=mcp", "notes.append"),
        ("format=mcp&names=safe", "notes_append"),
        ("format=openai", "notes_append"),
        ("format=native", "notes.append"),
    ] {
        // Twice: the second time from what was kept.
        for _ in 0..2 {
            let list = ann.get(&format!("/v1/tools?{query}")).await.expect_ok();
            assert!(names(&list).contains(&name.to_owned()), "{query}");
        }
    }
}

#[tokio::test]
async fn bad_questions_are_told_what_is_wrong() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (query, told) in [
        (
            "format=ollma",
            "unknown format `ollma`; use one of openai_chat (also openai), openai_chat_strict, \
             openai_responses, openai_responses_strict, anthropic, gemini, gemini_per_tool, ollama, mcp",
        ),
        ("names=short", "unknown names `short`; use safe or native"),
        ("limit=0", "`limit` must be from 1 to 1000"),
        ("limit=1001", "`limit` must be from 1 to 1000"),
        ("cursor=nothing", "the tool of the cursor no longer exists"),
        // A cursor reveals no hidden tool.
        ("cursor=needs.owner", "the tool of the cursor no longer exists"),
    ] {
        let reply = ann.get(&format!("/v1/tools?{query}")).await;
        assert_eq!(reply.error(), (400, "invalid_request".to_owned(), told.to_owned()), "{query}");
    }
    for query in ["limit=many", "formt=mcp", "limit=-1", "format=mcp&format=mcp"] {
        let (status, code, told) = ann.get(&format!("/v1/tools?{query}")).await.error();
        assert_eq!((status, code.as_str()), (400, "invalid_request"), "{query}");
        assert!(told.starts_with("the query: "), "{told}");
    }
}

#[tokio::test]
async fn pages_together_are_the_list() {
    let server = FixtureServer::with_offers(tools::many_offers(2_500)).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (format, limit, sizes) in
        [("native", "", vec![1_000, 1_000, 500]), ("mcp", "&limit=900", vec![900, 900, 700])]
    {
        let (mut all, mut found, mut cursor) = (Vec::new(), Vec::new(), String::new());
        loop {
            let page =
                ann.get(&format!("/v1/tools?format={format}{limit}{cursor}")).await.expect_ok();
            let names = names(&page);
            found.push(names.len());
            all.extend(names);
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, sizes);
        let expected: Vec<_> = (0..2_500).map(|i| format!("many.t{i:05}")).collect();
        assert_eq!(all, expected);
    }
}

#[tokio::test]
async fn hidden_and_unknown_are_one_answer() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    hidden_is_unknown(&ann, |who| format!("/v1/tools/needs.{who}")).await;
    hidden_is_unknown(&ann, |who| format!("/v1/tools/needs_{who}")).await;
    hidden_is_unknown(&ann, |who| format!("/v1/tools/needs.{who}?format=mcp")).await;
    // Positive control: a caller who may see it finds it by both names.
    for name in ["needs.owner", "needs_owner"] {
        let path = format!("/v1/tools/{name}");
        assert_eq!(server.owner_client().await.get(&path).await.expect_ok()["name"], "needs.owner");
    }
}

/// The kept list is sent between its own pieces of the answer: one length, and nothing else.
#[tokio::test]
async fn the_kept_list_is_sent_with_its_length() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for _kept in 0..2 {
        let reply = ann.get("/v1/tools?format=openai_chat").await;
        let length = reply.text().len().to_string();
        assert_eq!(reply.header("content-length"), Some(length.as_str()));
        assert_eq!(reply.header("transfer-encoding"), None);
        assert!(names(&reply.expect_ok()).contains(&"notes_append".to_owned()));
    }
}

/// Returns the named tools only, without a cursor if the list is complete.
#[tokio::test]
async fn tools_of_one_source_and_named_ones_are_a_whole_list() {
    let server = FixtureServer::with_offers(tools::many_offers(50)).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for format in ["", "&format=anthropic", "&format=gemini_per_tool"] {
        let list = ann.get(&format!("/v1/tools?source=s{format}")).await.expect_ok();
        assert_eq!(list["tools"].as_array().unwrap().len(), 50, "{format}");
        let none = ann.get(&format!("/v1/tools?source=other{format}")).await.expect_ok();
        assert_eq!((&none["tools"], &none["next_cursor"]), (&json!([]), &Value::Null), "{format}");
        let named = "allowed_tools=many.t00030,many.t00001";
        let both = ann.get(&format!("/v1/tools?limit=2&{named}{format}")).await.expect_ok();
        assert_eq!(both["tools"].as_array().unwrap().len(), 2, "{format}");
        assert_eq!(both["next_cursor"], Value::Null, "{format}");
        // Control: with further tools, the cursor leads to them.
        let first = ann.get(&format!("/v1/tools?limit=1&{named}{format}")).await.expect_ok();
        let cursor = first["next_cursor"].as_str().unwrap();
        let rest = ann
            .get(&format!("/v1/tools?cursor={cursor}&limit=2&{named}{format}"))
            .await
            .expect_ok();
        assert_eq!(
            (rest["tools"].as_array().unwrap().len(), &rest["next_cursor"]),
            (1, &Value::Null)
        );
    }
}
