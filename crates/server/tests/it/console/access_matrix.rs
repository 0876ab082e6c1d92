//! The pages of access to tools: the matrix, one decision, and an edited policy.

use std::sync::Arc;

use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::support::configuration::FixtureConfiguration;
use crate::support::{Browser, Client, FixtureServer, ServerSetup, tools};

const POLICY: &str = "policy:\n  deny: [ls]\n";

async fn server() -> FixtureServer {
    let configuration =
        FixtureConfiguration { policy: POLICY.to_owned(), ..FixtureConfiguration::default() };
    FixtureServer::with_setup(ServerSetup {
        offers: tools::standard_offers(),
        configuration: Some(Arc::new(configuration)),
        ..ServerSetup::default()
    })
    .await
}

fn tool_names(list: &Value) -> Vec<&str> {
    let names = list.as_array().unwrap().iter();
    names.map(|tool| tool["tool"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_matrix_says_of_each_key_what_its_own_list_says() {
    let server = server().await;
    let owner = server.owner_client().await;
    let guest = server.agent_client("gus", PermissionLevel::Guest).await;
    let admin = server.agent_client("ada", PermissionLevel::Admin).await;
    let path = format!("/v1/access?keys={},{}", guest.key_id, admin.key_id);
    let matrix = owner.get(&path).await.expect_ok();
    let all = tool_names(&matrix["tools"]);
    assert!(all.len() > 3 && all.is_sorted(), "{all:?}");
    for (column, client) in [&guest, &admin].into_iter().enumerate() {
        let own = client.get("/v1/tools").await.expect_ok();
        let own: Vec<_> = own["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        let shown = matrix["tools"].as_array().unwrap().iter();
        let mut shown: Vec<_> = shown
            .filter(|tool| tool["access"][column]["decision"] != "hidden")
            .map(|tool| tool["tool"].as_str().unwrap())
            .collect();
        let mut own = own;
        own.sort_unstable();
        shown.sort_unstable();
        assert_eq!(shown, own, "{}", client.key_id);
    }
    // One key of each combination of rights; pages; a filter.
    let matrix = owner.get("/v1/access").await.expect_ok();
    assert_eq!(matrix["keys"].as_array().unwrap().len(), 3);
    let first = owner.get("/v1/access?limit=2").await.expect_ok();
    let next = first["next"].as_str().unwrap();
    let second = owner.get(&format!("/v1/access?limit=2&after={next}")).await.expect_ok();
    assert_eq!(
        [tool_names(&first["tools"]), tool_names(&second["tools"])].concat(),
        all[..4].to_vec()
    );
    let found = owner.get("/v1/access?tool=NOTES").await.expect_ok();
    assert!(tool_names(&found["tools"]).iter().all(|name| name.contains("notes")));
    let many = ["k"; 9].join(",");
    for (query, status) in [("keys=none", 404), (&*format!("keys={many}"), 400), ("limit=0", 400)] {
        assert_eq!(owner.get(&format!("/v1/access?{query}")).await.status, status, "{query}");
    }
    assert_eq!(admin.get("/v1/access").await.status, 403);
    let browser = Browser::sign_in(&server, &owner).await;
    let page = browser.page("/ui/access/tools?tool=notes").await;
    assert!(page.text.contains("gus (guest)"), "{}", page.text);
    let cell = page.values_of("href").into_iter().find(|it| it.contains(&guest.key_id));
    let decision = browser.page(cell.unwrap()).await;
    assert!(decision.text.contains("Decision"), "{}", decision.text);
    let unknown = browser.page("/ui/access/decision?tool=none").await;
    assert!(unknown.text.contains("does not exist for the caller"), "{}", unknown.text);
    assert_eq!(browser.get("/ui/access/decision?tool=a&arguments=%7B").await.status, 400);
}

async fn preview(client: &Client, policy: &str) -> Value {
    client.post("/v1/policy/preview", &json!({"policy": policy})).await.expect_ok()
}

#[tokio::test]
async fn an_edited_policy_is_compared_and_changes_nothing() {
    let server = server().await;
    let owner = server.owner_client().await;
    let admin = server.agent_client("ada", PermissionLevel::Admin).await;
    let before = admin.get("/v1/tools").await.expect_ok();
    let same = preview(&owner, "{}").await;
    assert_eq!((&same["changes"], &same["complete"]), (&json!([]), &json!(true)));
    assert_eq!(same["keys"], 2);
    let denied = preview(&owner, "deny: [notes.append]\n").await;
    let change = &denied["changes"][0];
    assert_eq!(tool_names(&denied["changes"]), ["notes.append"]);
    assert_eq!(
        (&change["was"]["decision"], &change["is"]["decision"], &change["is"]["reason"]),
        (&json!("allow"), &json!("hidden"), &json!("deny_rule"))
    );
    assert_eq!(change["key_count"], 2, "{change}");
    assert!(denied["rules"].to_string().contains("deny[notes.append]"), "{denied}");
    let text = "policy: # <b>\n  rules:\n  - { name: ask, effect: hold, tools: [notes.append] }\n";
    let held = preview(&owner, text).await;
    assert_eq!(held["changes"][0]["is"]["decision"], "hold");
    let when = "rules: [{ name: r, effect: deny, tools: [notes.append], when: 'args.x == 1' }]";
    let conditional = preview(&owner, when).await;
    assert_eq!(
        conditional["changes"][0]["is"],
        json!({"decision": "conditional", "reason": "allowed", "rules": ["r"]})
    );
    let bad = owner.post("/v1/policy/preview", &json!({"policy": "denyy: [a]"})).await;
    assert_eq!(bad.status, 400);
    assert!(bad.text().contains("denyy"), "{}", bad.text());
    assert_eq!(admin.post("/v1/policy/preview", &json!({"policy": ""})).await.status, 403);
    assert_eq!(admin.get("/v1/tools").await.expect_ok(), before, "nothing has changed");
    // The page begins with the policy of the file.
    let browser = Browser::sign_in(&server, &owner).await;
    let page = browser.get("/ui/access/policy").await;
    assert!(page.text().contains("\npolicy:\n  deny: [ls]\n</textarea>"), "{}", page.text());
    let shown = browser.post("/ui/access/policy", &[("policy", text)]).await;
    assert_eq!(shown.status, 200);
    let html = shown.text();
    assert!(html.contains("policy: # &lt;b&gt;") && html.contains("2 keys"), "{html}");
    assert_eq!(browser.post("/ui/access/policy", &[("policy", "denyy: [a]")]).await.status, 400);
    let other = Browser::sign_in(&server, &admin).await;
    for path in ["/ui/access/tools", "/ui/access/policy"] {
        assert_eq!(other.get(path).await.status, 403, "{path}");
    }
}
