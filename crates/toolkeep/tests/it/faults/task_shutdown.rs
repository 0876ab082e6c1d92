//! Tests of tasks at the end of the server: stopped and killed.

use serde_json::{Value, json};
use testkit::mcp_fixture::{self, FixtureEra, FixtureOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::support::installation::Installation;
use crate::support::server_process::{READY_LIMIT, Server, start_server};

/// A client of 2026-07-28 that follows tasks.
#[expect(clippy::disallowed_methods, reason = "a client from outside, not a part of Toolkeep")]
async fn ask(server: &Server, method: &str, mut params: Value) -> Value {
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let address = server.url.strip_prefix("http://").unwrap();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let name = params.get("name").or(params.get("taskId")).unwrap().as_str().unwrap().to_owned();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let head = format!(
        "POST /mcp/fixture HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\nmcp-name: {name}\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        key.trim(),
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Begins a task of a minute; its id and its call's.
async fn begin(server: &Server) -> (Value, String) {
    let params = json!({"name": "slow_compute", "arguments": {"seconds": 60}});
    let created = ask(server, "tools/call", params).await["result"].clone();
    assert_eq!(created["resultType"], "task", "{created}");
    let told = ask(server, "tasks/get", json!({"taskId": created["taskId"]})).await;
    assert_eq!(told["result"]["status"], "working", "{told}");
    let records = server.owner().get("/v1/records").await.body["records"].clone();
    let call = records[0]["call"].as_str().unwrap().to_owned();
    assert_eq!(server.owner().fetch_record(&call).await.body["status"], "running");
    (created["taskId"].clone(), call)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_server_ends_is_one_call_whose_end_is_told_as_it_was() {
    for era in [FixtureEra::Modern, FixtureEra::Legacy] {
        let fixture =
            mcp_fixture::start_fixture(FixtureOptions { era, page_size: 0 }).await.unwrap();
        let url = &fixture.url;
        let home = Installation::new(&format!(
            "version: 1\nsources: [{{ name: fixture, mcp: {{ url: '{url}' }} }}]\n"
        ));
        let server = start_server(&home).await;
        let (killed_task, killed) = begin(&server).await;
        server.kill().await;
        let server = start_server(&home).await;
        assert_eq!(server.owner().fetch_record(&killed).await.body["status"], "unknown");
        let (stopped_task, stopped) = begin(&server).await;
        let begun = Instant::now();
        assert!(server.stop().await.success());
        assert!(begun.elapsed() < READY_LIMIT / 2, "it waited for the task");
        let server = start_server(&home).await;
        assert_eq!(server.owner().fetch_record(&stopped).await.body["status"], "cancelled");
        assert_eq!(server.owner().fetch_record(&killed).await.body["status"], "unknown");
        for id in [killed_task, stopped_task] {
            let told = ask(&server, "tasks/get", json!({"taskId": id})).await;
            assert_eq!(told["error"]["code"], -32_602, "{told}");
        }
        // No call ran twice.
        let records = server.owner().get("/v1/records").await.body["records"].clone();
        let intents = records.as_array().unwrap().iter().filter(|it| it["kind"] == "intent");
        assert_eq!(intents.count(), 2);
        assert!(server.stop().await.success());
    }
}
