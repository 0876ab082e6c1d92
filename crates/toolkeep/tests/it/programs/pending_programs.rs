//! Tests that a call which needs an approval pauses its program, also across a restart.

use serde_json::{Value, json};

use super::{run, start_default_server};
use crate::real_support::expect_ok;
use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::server_process::{Server, start_server};

const CODE: &str = "\
before = calculate('20 + 1')
written = write_file(path='a.txt', content='one')
after = calculate(f'2 * {before}')
[written['bytes_written'], after]
";

/// Starts it, and returns its ID and that of the pending call.
async fn held(agent: &Client, mode: &str) -> (String, String) {
    let reply = agent.post("/v1/programs", &json!({ "code": CODE, "mode": mode })).await;
    assert_eq!(
        (reply.status, &reply.body["status"]),
        (202, &json!("pending_approval")),
        "{reply:?}"
    );
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&reply.body["program"]), text(&reply.body["pending"][0]["approval"]))
}

async fn decided(server: &Server, call: &str, how: &str) {
    let path = format!("/v1/approvals/{call}/{how}");
    assert_eq!(server.owner().post(&path, &json!({})).await.status, 200);
}

async fn ended(agent: &Client, program: &str) -> Value {
    expect_ok(agent.get(&format!("/v1/programs/{program}?wait=30s")).await)
}

/// It returned the expected value.
async fn went_right(agent: &Client, program: &str) -> Value {
    let came = ended(agent, program).await;
    assert_eq!(
        (&came["status"], &came["result"]),
        (&json!("succeeded"), &json!([3, 42])),
        "{came}"
    );
    came
}

#[tokio::test]
async fn an_approved_call_lets_its_program_go_on() {
    let (home, server) = start_default_server().await;
    let agent = server.agent();
    let (program, call) = held(&agent, "seq").await;
    let file = home.data().join("work/a.txt");
    assert!(!file.exists());
    decided(&server, &call, "approve").await;
    let came = went_right(&agent, &program).await;
    assert_eq!(came["tools_called"], json!(["calculate", "write_file", "calculate"]));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_refusal_raises_in_the_script() {
    let (home, server) = start_default_server().await;
    let agent = server.agent();
    let (program, call) = held(&agent, "seq").await;
    decided(&server, &call, "deny").await;
    let came = ended(&agent, &program).await;
    assert_eq!(came["status"], "failed", "{came}");
    assert!(came["error"].as_str().unwrap().starts_with("PermissionError"), "{came}");
    assert!(!home.data().join("work/a.txt").exists());
    assert!(server.stop().await.success());
}

/// Its approval was not given in time.
async fn paused(server: &Server, mode: &str) -> String {
    let agent = server.agent();
    let (program, call) = held(&agent, mode).await;
    let path = format!("/v1/programs/{program}?wait=30s");
    let came = agent.get(&path).await;
    assert_eq!((came.status, &came.body["status"]), (202, &json!("paused")), "{came:?}");
    let told = "the approval of `write_file` expired: resume the program to request it again";
    assert_eq!((&came.body["error"], &came.body["pending"]), (&json!(told), &json!([])));
    let late = server.owner().post(&format!("/v1/approvals/{call}/approve"), &json!({})).await;
    assert_eq!(late.status, 409, "{late:?}");
    program
}

/// It asks again; the approval that it waits for then.
async fn resumed(agent: &Client, program: &str) -> String {
    let reply = agent.post(&format!("/v1/programs/{program}/resume"), &json!({})).await;
    assert_eq!(
        (reply.status, &reply.body["status"]),
        (202, &json!("pending_approval")),
        "{reply:?}"
    );
    reply.body["pending"][0]["approval"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn where_nobody_decides_in_time_a_program_asks_again_when_it_is_resumed() {
    for mode in ["seq", "dep", "legacy"] {
        let home = Installation::new("version: 1\napprovals: { expires: 1s }\n");
        let server = start_server(&home).await;
        let program = paused(&server, mode).await;
        // By itself it does not go on, also not in the next process.
        server.kill().await;
        home.write("toolkeep.yaml", "version: 1\n");
        let server = start_server(&home).await;
        let agent = server.agent();
        let still = agent.get(&format!("/v1/programs/{program}")).await;
        assert_eq!(still.body["status"], "paused", "{still:?}");
        let call = resumed(&agent, &program).await;
        decided(&server, &call, "approve").await;
        let came = ended(&agent, &program).await;
        assert_eq!(
            (&came["status"], &came["error"]),
            (&json!("succeeded"), &Value::Null),
            "{came}"
        );
        // One entry for each call: earlier ones were not repeated, and calls that never ran have
        // none.
        assert_eq!(came["tools_called"], json!(["calculate", "write_file", "calculate"]));
        assert_eq!(came["tools_success"], true, "{came}");
        let file = std::fs::read_to_string(home.data().join("work/a.txt")).unwrap();
        assert_eq!(file, "one");
        let again = agent.post(&format!("/v1/programs/{program}/resume"), &json!({})).await;
        assert_eq!(again.status, 409, "{again:?}");
        assert!(server.stop().await.success());
    }
}

#[tokio::test]
async fn a_paused_program_can_be_cancelled_and_asks_nobody_elses_caller() {
    let home = Installation::new("version: 1\napprovals: { expires: 1s }\n");
    let server = start_server(&home).await;
    let (agent, program) = (server.agent(), paused(&server, "seq").await);
    let path = format!("/v1/programs/{program}/resume");
    let another = server.owner().post(&path, &json!({})).await;
    assert_eq!(another.status, 404, "{another:?}");
    // The tool for models does the same as the route.
    let asked =
        json!({ "tool": "program_status", "arguments": { "program": program, "resume": true } });
    let asked = expect_ok(agent.post("/v1/calls", &asked).await);
    assert_eq!(asked["result"]["status"], "pending_approval", "{asked}");
    let came = expect_ok(agent.post(&format!("/v1/programs/{program}/cancel"), &json!({})).await);
    assert_eq!(came["status"], "cancelled", "{came}");
    assert_eq!(agent.post(&path, &json!({})).await.status, 409);
    assert!(!home.data().join("work/a.txt").exists());
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_program_goes_on_after_the_server_was_killed() {
    let (home, server) = start_default_server().await;
    let (program, call) = held(&server.agent(), "seq").await;
    server.kill().await;
    let server = start_server(&home).await;
    let agent = server.agent();
    let waits = agent.get(&format!("/v1/programs/{program}")).await;
    assert_eq!(
        (waits.status, &waits.body["status"]),
        (202, &json!("pending_approval")),
        "{waits:?}"
    );
    decided(&server, &call, "approve").await;
    let came = went_right(&agent, &program).await;
    // One entry for each call: those before the end were not repeated.
    assert_eq!(came["calls"].as_array().unwrap().len(), 3, "{came}");
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_wave_waits_for_the_call_in_it_that_is_held() {
    let (home, server) = start_default_server().await;
    let agent = server.agent();
    let code = "\
a = calculate('1 + 1')
w = write_file(path='b.txt', content='x')
r = read_file(path='b.txt')
{'a': a, 'r': r}
";
    let reply = agent.post("/v1/programs", &json!({ "code": code, "mode": "dep" })).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let call = reply.body["pending"][0]["approval"].as_str().unwrap().to_owned();
    assert_eq!(reply.body["tool_chains"][0]["mode_used"], "dep", "{reply:?}");
    decided(&server, &call, "approve").await;
    let came = ended(&agent, reply.body["program"].as_str().unwrap()).await;
    assert_eq!((&came["result"]["a"], &came["result"]["r"]["content"]), (&json!(2), &json!("x")));
    assert_eq!(came["tools_used"], 3, "{came}");
    assert!(home.data().join("work/b.txt").exists());
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_cancelled_program_takes_its_call_back() {
    let (home, server) = start_default_server().await;
    let agent = server.agent();
    let (program, call) = held(&agent, "seq").await;
    let came = expect_ok(agent.post(&format!("/v1/programs/{program}/cancel"), &json!({})).await);
    assert_eq!(came["status"], "cancelled", "{came}");
    let late = server.owner().post(&format!("/v1/approvals/{call}/approve"), &json!({})).await;
    assert_eq!(late.status, 409, "{late:?}");
    assert!(!home.data().join("work/a.txt").exists());
    let again = agent.post(&format!("/v1/programs/{program}/cancel"), &json!({})).await;
    assert_eq!(again.status, 409, "{again:?}");
    // The control: without it, the same approval would have counted.
    let (_, call) = held(&agent, "seq").await;
    decided(&server, &call, "approve").await;
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_read_only_request_has_no_program_that_writes() {
    let (home, server) = start_default_server().await;
    let code = json!({ "code": "write_file(path='c.txt', content='x')" });
    let reply = server.agent().post("/v1/programs?read_only=true", &code).await;
    assert_ne!(reply.body["status"], "pending_approval", "{reply:?}");
    assert!(!home.data().join("work/c.txt").exists());
    let control = run(&server.agent(), json!({ "code": "calculate('1')" })).await;
    assert_eq!(control["result"], 1);
    assert!(server.stop().await.success());
}
