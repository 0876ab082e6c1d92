//! Tests of tasks over the end of their server: killed, stopped and started again.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::mcp_fixture::{self, FixtureEra, FixtureOptions, RunningFixture};
use tokio::time::Instant;

use super::raw_client::McpClient;
use crate::support::installation::Installation;
use crate::support::server_process::{READY_LIMIT, Server, start_server};

fn client(server: &Server, key: &str) -> McpClient {
    let key = std::fs::read_to_string(server.data.join(key)).unwrap();
    McpClient::new(server, key.trim(), "/mcp/fixture")
}

async fn ask(server: &Server, method: &str, params: Value) -> Value {
    client(server, "agent.key").ask(method, params).await
}

async fn get(server: &Server, id: &Value) -> Value {
    ask(server, "tasks/get", json!({"taskId": id})).await["result"].clone()
}

/// Waits until the task has ended.
async fn end_of(server: &Server, id: &Value) -> Value {
    let begun = Instant::now();
    loop {
        let state = get(server, id).await;
        if state["status"] != "working" {
            return state;
        }
        assert!(begun.elapsed() < READY_LIMIT, "{state}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Begins a task; its id and its call's.
async fn begin(server: &Server, seconds: f64) -> (Value, String) {
    let params = json!({"name": "slow_compute", "arguments": {"seconds": seconds}});
    let created = ask(server, "tools/call", params).await["result"].clone();
    assert_eq!(created["resultType"], "task", "{created}");
    let records = server.owner().get("/v1/records").await.body["records"].clone();
    (created["taskId"].clone(), records[0]["call"].as_str().unwrap().to_owned())
}

async fn start_fixture(era: FixtureEra) -> RunningFixture {
    mcp_fixture::start_fixture(FixtureOptions { era, page_size: 0 }).await.unwrap()
}

fn config(fixture: &RunningFixture) -> String {
    format!("version: 1\nsources: [{{ name: fixture, mcp: {{ url: '{}' }} }}]\n", fixture.url)
}

async fn restart(home: &Installation) -> Server {
    start_server(home).await.wait_for_sources().await
}

/// The number of calls on record that are no continuation of another.
async fn own_calls(server: &Server) -> usize {
    let records = server.owner().get("/v1/records").await.body["records"].clone();
    let calls = records.as_array().unwrap().iter().filter(|it| it["kind"] == "intent");
    calls.filter(|it| it["body"]["continues"].is_null()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_answered_after_the_server_was_killed_and_goes_on_at_its_source() {
    let fixture = start_fixture(FixtureEra::Modern).await;
    let home = Installation::new(&config(&fixture));
    let server = restart(&home).await;
    let (ended, _) = begin(&server, 0.3).await;
    let before = end_of(&server, &ended).await;
    assert_eq!(before["status"], "completed", "{before}");
    let (running, call) = begin(&server, 3.0).await;
    assert_eq!(get(&server, &running).await["status"], "working");
    let calls = own_calls(&server).await;
    server.kill().await;

    let server = restart(&home).await;
    assert_eq!(get(&server, &ended).await, before, "the end is answered as it was");
    assert_eq!(server.owner().fetch_record(&call).await.body["status"], "unknown");
    // The id of another caller is no id, to the byte: neither of a task that ended nor of one that runs.
    let nobodys = client(&server, "agent.key").send("tasks/get", json!({"taskId": "AAAA"})).await;
    for id in [&ended, &running] {
        let of_other = client(&server, "owner.key").send("tasks/get", json!({"taskId": id})).await;
        assert_eq!(of_other, nobodys);
    }
    let after = end_of(&server, &running).await;
    assert_eq!(after["status"], "completed", "{after}");
    assert_eq!(after["taskId"], running);
    assert_eq!(after["result"]["content"], before["result"]["content"]);
    assert_eq!(own_calls(&server).await, calls, "no call ran twice");
    // A later process has the end, too.
    server.kill().await;
    let server = restart(&home).await;
    assert_eq!(get(&server, &running).await["result"], after["result"]);
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_call_ended_with_the_server_has_failed_and_says_why() {
    let fixture = start_fixture(FixtureEra::Legacy).await;
    let home = Installation::new(&config(&fixture));
    let server = restart(&home).await;
    let (ended, _) = begin(&server, 0.4).await;
    let before = end_of(&server, &ended).await;
    let (killed, call) = begin(&server, 60.0).await;
    server.kill().await;
    let server = restart(&home).await;
    let state = get(&server, &killed).await;
    assert_eq!(state["status"], "failed", "{state}");
    let message = state["error"]["message"].as_str().unwrap();
    assert!(message.contains("the server stopped while the call ran"), "{message}");
    assert_eq!(server.owner().fetch_record(&call).await.body["status"], "unknown");
    // The control: a call that ended before.
    assert_eq!(get(&server, &ended).await, before);
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_its_source_forgot_has_failed_and_says_why() {
    let fixture = start_fixture(FixtureEra::Modern).await;
    let home = Installation::new(&config(&fixture));
    let server = restart(&home).await;
    let (task, _) = begin(&server, 60.0).await;
    server.kill().await;
    let forgetful = start_fixture(FixtureEra::Modern).await;
    home.write("toolkeep.yaml", &config(&forgetful));
    let server = restart(&home).await;
    let state = end_of(&server, &task).await;
    assert_eq!(state["status"], "failed", "{state}");
    let message = state["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("the server was restarted during the call; then: "), "{message}");
    assert!(message.contains("there is no task"), "{message}");
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_leaves_tasks_to_their_source_and_a_later_one_can_cancel_them() {
    let fixture = start_fixture(FixtureEra::Modern).await;
    let home = Installation::new(&config(&fixture));
    let server = restart(&home).await;
    let (kept, kept_call) = begin(&server, 2.0).await;
    let (given_up, _) = begin(&server, 60.0).await;
    let begun = Instant::now();
    assert!(server.stop().await.success());
    assert!(begun.elapsed() < READY_LIMIT / 2, "it waited for the task");
    let server = restart(&home).await;
    assert_eq!(server.owner().fetch_record(&kept_call).await.body["status"], "cancelled");
    let state = end_of(&server, &kept).await;
    assert_eq!(state["status"], "completed", "{state}");
    ask(&server, "tasks/cancel", json!({"taskId": given_up})).await;
    let state = end_of(&server, &given_up).await;
    assert_eq!(state["status"], "cancelled", "{state}");
    assert!(server.stop().await.success());
}
