//! Adding a source: planned, tried and written, over REST and in the console.

use std::sync::Arc;

use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::support::configuration::{FixtureConfiguration, UNREACHABLE};
use crate::support::{Browser, FixtureServer, ServerSetup};

async fn server(configuration: FixtureConfiguration) -> (FixtureServer, Arc<FixtureConfiguration>) {
    let configuration = Arc::new(configuration);
    let setup =
        ServerSetup { configuration: Some(configuration.clone()), ..ServerSetup::default() };
    (FixtureServer::with_setup(setup).await, configuration)
}

#[tokio::test]
async fn a_source_is_tried_and_added_by_a_form_of_its_kind() {
    let (server, configuration) = server(FixtureConfiguration::default()).await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    let page = browser.page("/ui/sources/add").await;
    let names = page.values_of("name");
    for field in ["/name", "/mcp/url", "/mcp/headers", "/trust", "/trust_annotations"] {
        assert!(names.contains(&field), "{field}: {names:?}");
    }
    for kind in ["mcp_command", "module", "tools"] {
        browser.page(&format!("/ui/sources/add?kind={kind}")).await;
    }
    assert_eq!(browser.get("/ui/sources/add?kind=x").await.status, 400);
    let form = [
        ("kind", "mcp_url"),
        ("/name", "wiki"),
        ("/mcp/url", "https://wiki.example/mcp"),
        ("/mcp/headers", r#"{"X-Team": "a"}"#),
        ("/trust", "\"review\""),
        ("/trust_annotations", "true"),
    ];
    let tried = browser.post("/ui/sources/add", &form).await;
    assert_eq!(tried.status, 200, "{}", tried.text());
    let html = tried.text();
    assert!(html.contains("It lists 1 tools. Nothing was added."), "{html}");
    assert!(html.contains("&lt;b&gt;Looks&lt;/b&gt;<mark>\\u{202e}</mark>"), "{html}");
    assert!(configuration.added.lock().unwrap().is_empty());
    let added = browser.post("/ui/sources/add", &[&form[..], &[("action", "add")]].concat()).await;
    assert!(added.text().contains("is in the configuration file"), "{}", added.text());
    let (entry, by) = configuration.added.lock().unwrap().pop().unwrap();
    let expected = json!({"name": "wiki", "mcp": {"url": "https://wiki.example/mcp",
        "headers": {"X-Team": "a"}}, "trust": "review", "trust_annotations": true});
    assert_eq!((Value::Object(entry), by.key_id), (expected, owner.key_id.clone()));
    let gone = [("kind", "module"), ("/name", UNREACHABLE), ("/module", "https://h.example")];
    let failed = browser.post("/ui/sources/add", &gone).await;
    assert!(failed.text().contains("does not respond"), "{}", failed.text());
    let wrong = [("kind", "mcp_url"), ("/name", "a"), ("/mcp/headers", "{")];
    let refused = browser.post("/ui/sources/add", &wrong).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("/mcp/headers: expected JSON"), "{}", refused.text());
}

#[tokio::test]
async fn a_source_of_this_machine_needs_the_permission_of_the_file() {
    for allowed in [false, true] {
        let configuration = FixtureConfiguration {
            allows_local_sources: allowed,
            ..FixtureConfiguration::default()
        };
        let (server, configuration) = server(configuration).await;
        let owner = server.owner_client().await;
        for entry in [
            json!({"name": "a", "mcp": {"command": "sh", "args": ["-c", "id"]}}),
            json!({"name": "a", "tools": "/etc/passwd"}),
            json!({"name": "a", "mcp_servers": "servers.json"}),
            json!({"name": "a", "mcp": {"url": "https://h.example", "headers": {"X": "${HOME}"}}}),
            json!({"name": "a", "module": "https://h.example", "credential": {"bearer_env": "A"}}),
            json!({"name": "a"}),
        ] {
            let trial = owner.post("/v1/sources/try", &entry).await.expect_ok();
            assert_eq!(trial.get("listed").is_some(), allowed, "nothing starts: {trial}");
            assert!(trial["planned"]["lines"].as_str().unwrap().contains("\"name\":\"a\""));
            let added = owner.post("/v1/sources", &entry).await;
            assert_eq!(added.status == 200, allowed, "{entry}: {}", added.text());
        }
        let remote = json!({"name": "b", "module": "https://h.example"});
        owner.post("/v1/sources", &remote).await.expect_ok();
        let count = if allowed { 7 } else { 1 };
        assert_eq!(configuration.added.lock().unwrap().len(), count);
    }
}

#[tokio::test]
async fn only_a_person_of_the_installation_with_the_right_adds_sources() {
    let (server, configuration) = server(FixtureConfiguration::default()).await;
    let entry = json!({"name": "b", "module": "https://h.example"});
    for right in identity::Right::ALL {
        let client = server.client_with(|key| {
            (key.is_agent, key.level) = (false, PermissionLevel::Owner);
            key.rights = [*right].into();
        });
        let client = client.await;
        let status = if *right == identity::Right::SourcesWrite { 200 } else { 403 };
        assert_eq!(client.post("/v1/sources", &entry).await.status, status, "{right:?}");
        assert_eq!(client.post("/v1/sources/try", &entry).await.status, status, "{right:?}");
        let browser = Browser::sign_in(&server, &client).await;
        let form = [("kind", "module"), ("/name", "b"), ("/module", "https://h.example")];
        assert_eq!(browser.post("/ui/sources/add", &form).await.status, status, "{right:?}");
    }
    let foreign = server.client_with(|key| {
        (key.is_agent, key.level) = (false, PermissionLevel::Owner);
        key.org = tool::Org::new("other").unwrap();
        key.rights = [identity::Right::SourcesWrite].into();
    });
    let foreign = foreign.await;
    for path in ["/v1/sources", "/v1/sources/try"] {
        assert_eq!(foreign.post(path, &entry).await.status, 403, "{path}");
    }
    assert!(!identity::Right::SourcesWrite.is_allowed_for_agents());
    assert_eq!(configuration.added.lock().unwrap().len(), 1);
    // Without a file there is nothing to add to.
    let bare = FixtureServer::new().await;
    let owner = bare.owner_client().await;
    assert_eq!(owner.post("/v1/sources", &entry).await.status, 404);
}
