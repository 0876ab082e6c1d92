//! Tests of the events of an MCP server that speaks one era or both, through the binary: its event types,
//! polls and streams at both endpoints, and that nothing of them passes without the operator's word.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::mcp_fixture::{self, FixtureEra, FixtureOptions, RunningFixture};
use tokio::time::timeout;

use super::raw_client::McpClient;
use crate::approvals::ApprovalHome;
use crate::support::server_process::{Server, start_server};

const SOON: Duration = Duration::from_mins(1);

async fn fixture(era: FixtureEra) -> RunningFixture {
    mcp_fixture::start_event_fixture(FixtureOptions { era, page_size: 0 }).await.unwrap()
}

async fn server(fixture: &RunningFixture, extensions: &str) -> (ApprovalHome, Server) {
    let bench = ApprovalHome::new(&format!(
        "  - {{ name: fixture, mcp: {{ url: '{}' }}{extensions} }}\n",
        fixture.url
    ));
    let server = start_server(&bench.home).await.wait_for_sources().await;
    (bench, server)
}

fn owner_key(server: &Server) -> String {
    std::fs::read_to_string(server.data.join("owner.key")).unwrap().trim().to_owned()
}

async fn names(client: &McpClient) -> Vec<String> {
    let listed = client.result("events/list", json!({})).await;
    let types = listed["events"].as_array().unwrap().clone();
    types.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

/// Changes the resource, which is an event.
async fn change(client: &McpClient) {
    let params = json!({"name": "test_update_watched_resource", "arguments": {}});
    client.result("tools/call", params).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_server_of_either_era_are_polled_and_streamed_at_both_endpoints() {
    for era in [FixtureEra::Legacy, FixtureEra::Modern, FixtureEra::Both] {
        let fixture = fixture(era).await;
        let allowed = ", extensions: [io.modelcontextprotocol/events]";
        let (_bench, server) = server(&fixture, allowed).await;
        let key = owner_key(&server);
        let all = McpClient::new(&server, &key, "/mcp");
        let own = McpClient::new(&server, &key, "/mcp/fixture");
        assert!(names(&all).await.contains(&"fixture.counter.changed".to_owned()));
        assert_eq!(names(&own).await, ["counter.changed"]);
        for (client, name) in [(&all, "fixture.counter.changed"), (&own, "counter.changed")] {
            let poll = async |cursor: Value| {
                client.result("events/poll", json!({"name": name, "cursor": cursor})).await
            };
            let begun = poll(Value::Null).await;
            assert_eq!(begun["events"], json!([]), "{era:?}");
            let mut stream = client.stream("events/stream", json!({"name": name})).await;
            let active = timeout(SOON, stream.next()).await.unwrap();
            assert_eq!(active["method"], "notifications/events/active", "{era:?} {active}");
            change(&own).await;
            let sent = timeout(SOON, stream.next()).await.unwrap();
            assert_eq!(sent["params"]["name"], name, "{era:?} {sent}");
            let page = poll(begun["cursor"].clone()).await;
            assert_eq!(page["events"][0]["data"], sent["params"]["data"], "{era:?} {page}");
            assert_eq!(page["truncated"], false);
            // A poll from the cursor of the event has nothing more.
            let rest = poll(sent["params"]["cursor"].clone()).await;
            assert_eq!(rest["events"], json!([]), "{era:?}");
            // The source says what is wrong with the arguments.
            let bad = json!({"name": name, "arguments": {"minimum": "x"}});
            assert_eq!(client.ask("events/poll", bad.clone()).await["error"]["code"], -32_602);
            assert_eq!(client.ask("events/stream", bad).await["error"]["code"], -32_602);
        }
        assert!(server.stop().await.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_server_are_not_relayed_without_the_word_of_the_operator() {
    let fixture = fixture(FixtureEra::Modern).await;
    let (_bench, server) = server(&fixture, "").await;
    let key = owner_key(&server);
    let all = McpClient::new(&server, &key, "/mcp");
    assert!(!names(&all).await.iter().any(|name| name.starts_with("fixture.")));
    let poll = |name: &str| json!({"name": name});
    let hidden = all.send("events/poll", poll("fixture.counter.changed")).await;
    let unknown = all.send("events/poll", poll("none.counter.changed")).await;
    assert_eq!(hidden.replace("fixture", "none"), unknown);
    let own = McpClient::new(&server, &key, "/mcp/fixture");
    assert_eq!(own.ask("events/list", json!({})).await["error"]["code"], -32_601);
    // The control: its tools are relayed.
    change(&own).await;
    assert!(server.stop().await.success());
}
