//! Tests of `notifications/cancelled`, a request that ends another one.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tool::call_outcome::CallStatus;
use tool::{PermissionLevel, SideEffects};

use crate::support::client::message;
use crate::support::executors::ReportingExecutor;
use crate::support::{Client, FixtureServer, Gate, Reply, tools};

async fn session(client: &Client) -> Client {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let reply = client.legacy_request(&message("initialize", params)).await;
    client.with_header("mcp-session-id", reply.header("mcp-session-id").unwrap())
}

async fn cancel(client: &Client, id: Value) {
    let params = json!({"requestId": id, "reason": "enough"});
    let told = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(client.legacy_request(&told).await.status, 202);
}

/// MCP requires no response to a cancelled request.
fn is_silence(reply: &Reply) {
    assert_eq!(reply.status, 200);
    assert_eq!((reply.header("content-type"), reply.text()), (Some("text/event-stream"), ""));
}

/// A call that already streams its progress is given up as well.
#[tokio::test]
async fn a_stream_ends_with_its_call() {
    let next = Arc::new(Semaphore::new(1));
    let reports = vec![(1.0, None, None), (2.0, None, None)];
    let reporting = Arc::new(ReportingExecutor { reports, next });
    let server =
        FixtureServer::with_offers(vec![tools::tool_offer(tools::test_tool("reports"), reporting)])
            .await;
    let ann = session(&server.agent_client("ann", PermissionLevel::User).await).await;
    let params = json!({"name": "reports", "_meta": {"progressToken": 1}});
    let mut stream = ann.legacy_stream(&message("tools/call", params)).await;
    assert_eq!(stream.next().await["params"]["progress"], 1.0);
    cancel(&ann, json!(1)).await;
    assert_eq!(stream.next().await, Value::Null);
    server.wait_until_drained().await;
    assert_eq!(server.recorded_ends()[0].status, CallStatus::Abandoned);
}

#[tokio::test]
async fn a_client_gives_its_call_up() {
    for (effects, status) in [
        (SideEffects::Unknown, CallStatus::Cancelled),
        (SideEffects::read_only(), CallStatus::Abandoned),
    ] {
        let gate = Gate::new();
        let waits = tools::tool_with("waits", |t| t.traits.effects = effects);
        let server = FixtureServer::with_offers(vec![tools::tool_offer(waits, gate.clone())]).await;
        let ann = session(&server.agent_client("ann", PermissionLevel::User).await).await;
        let call = message("tools/call", json!({"name": "waits"}));
        let given_up = async {
            gate.entered().await;
            cancel(&ann, json!(1)).await;
        };
        let (reply, ()) = tokio::join!(ann.legacy_request(&call), given_up);
        is_silence(&reply);
        server.wait_until_drained().await;
        assert_eq!(
            server.recorded_ends().iter().map(|end| end.status).collect::<Vec<_>>(),
            [status]
        );
    }
}

#[tokio::test]
async fn nobody_gives_anothers_call_up() {
    let gate = Gate::new();
    let server = FixtureServer::with_offers(vec![tools::tool_offer(
        tools::test_tool("waits"),
        gate.clone(),
    )])
    .await;
    let key = server.agent_client("ann", PermissionLevel::User).await;
    let (ann, other) = (session(&key).await, session(&key).await);
    let eve = server.agent_client("eve", PermissionLevel::User).await;
    let stolen = ann.with_header("authorization", &eve.bearer());
    let call = message("tools/call", json!({"name": "waits"}));
    let attempts = async {
        gate.entered().await;
        // Another session of the key, no session, another id, and ann's session with another's key.
        cancel(&other, json!(1)).await;
        cancel(&key, json!(1)).await;
        cancel(&ann, json!("1")).await;
        cancel(&ann, json!(2)).await;
        let told = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 1}});
        assert_eq!(stolen.legacy_request(&told).await.status, 404);
        assert_eq!(server.gateway.running_call_count(), 1);
        gate.release_call();
    };
    let (reply, ()) = tokio::join!(ann.legacy_request(&call), attempts);
    assert_eq!(reply.expect_ok()["result"]["content"][0]["text"], "opened");
}

/// Two clients of one key count their requests from 1, each in its session.
#[tokio::test]
pub(crate) async fn the_same_id_in_two_sessions_is_two_calls() {
    let gates = [Gate::new(), Gate::new()];
    let offers = ["a", "b"].iter().zip(&gates);
    let offers = offers.map(|(name, gate)| tools::tool_offer(tools::test_tool(name), gate.clone()));
    let server = FixtureServer::with_offers(offers.collect()).await;
    let key = server.agent_client("ann", PermissionLevel::User).await;
    let (a, b) = (session(&key).await, session(&key).await);
    let call = |name: &str| message("tools/call", json!({"name": name}));
    let (call_a, call_b) = (call("a"), call("b"));
    let given_up = async {
        gates[0].entered().await;
        gates[1].entered().await;
        cancel(&a, json!(1)).await;
        gates[1].release_call();
    };
    let (a, b, ()) = tokio::join!(a.legacy_request(&call_a), b.legacy_request(&call_b), given_up);
    is_silence(&a);
    assert_eq!(b.expect_ok()["result"]["content"][0]["text"], "opened");
}
