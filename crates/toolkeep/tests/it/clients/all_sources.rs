//! Test of prompts, resources, templates and completion at `/mcp` with the Python and TypeScript SDKs,
//! in front of two servers that have the same ones.

use serde_json::{Value, json};
use testkit::mcp_fixture::{self, FixtureOptions};

use super::Client;
use crate::support::installation::Installation;
use crate::support::server_process::start_server;

/// Clients with the revision that each speaks. The TypeScript SDK has one revision.
const CLIENTS: [(Client, &str); 3] = [
    (Client::Python("legacy"), "2025-11-25"),
    (Client::Python("2026-07-28"), "2026-07-28"),
    (Client::Node, "2025-11-25"),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_sdk_gets_the_prompts_and_resources_of_two_servers_that_share_uris() {
    let (one, two) = (
        mcp_fixture::start_fixture(FixtureOptions::default()).await.unwrap(),
        mcp_fixture::start_fixture(FixtureOptions::default()).await.unwrap(),
    );
    let home = Installation::new(&format!(
        "version: 1\nsources:\n  - {{ name: one, mcp: {{ url: '{}' }} }}\n  - {{ name: two, mcp: {{ url: '{}' }} }}\n",
        one.url, two.url
    ));
    let server = start_server(&home).await;
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let url = format!("{}/mcp", server.url);
    for (client, revision) in CLIENTS {
        let running = client
            .script_command("all_sources", &url)
            .env("TOOLKEEP_KEY", key.trim())
            .spawn()
            .unwrap();
        let ended = running.wait_with_output().await.unwrap();
        let out = String::from_utf8_lossy(&ended.stdout).into_owned();
        let err = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{client:?}: {out}\n{err}");
        let seen: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(seen["protocol"], revision);
        for (list, entry) in [
            ("prompts", "one.test_simple_prompt"),
            ("prompts", "two.test_simple_prompt"),
            ("resources", "one+test://static-text"),
            ("resources", "two+test://static-text"),
            ("templates", "one+test://template/{id}/data"),
            ("templates", "two+test://template/{id}/data"),
        ] {
            assert!(seen[list].as_array().unwrap().contains(&json!(entry)), "{entry}: {seen}");
        }
        assert!(seen["prompt"].as_str().is_some_and(|text| !text.is_empty()), "{seen}");
        let contents = seen["contents"].as_array().unwrap();
        assert_eq!(contents[0][0], "two+test://static-text", "{seen}");
        assert_eq!(contents[1][0], "two+test://template/7/data", "{seen}");
        assert!(contents[1][1].as_str().unwrap().contains('7'), "{seen}");
        assert!(!seen["completion"].as_array().unwrap().is_empty(), "{seen}");
    }
    assert!(server.stop().await.success());
}
