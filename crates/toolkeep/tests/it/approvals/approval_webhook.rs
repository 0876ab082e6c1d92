use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::hmac;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use data_encoding::BASE64;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{ApprovalHome, decide, pending_call, resume};
use crate::support::server_process::start_server;

const SECRET: &str = "0123456789abcdef0123";

/// Requests that came: id and time, signature, body.
type ReceivedEvents = Arc<Mutex<Vec<([String; 2], String, String)>>>;

/// Fails for the first two, so that they are sent again.
async fn receive_event(
    State(came): State<ReceivedEvents>,
    headers: HeaderMap,
    body: String,
) -> StatusCode {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let mut came = came.lock().unwrap();
    let signed = [header("webhook-id"), header("webhook-timestamp")];
    came.push((signed, header("webhook-signature"), body));
    if came.len() <= 2 { StatusCode::BAD_GATEWAY } else { StatusCode::NO_CONTENT }
}

/// As Standard Webhooks have it.
fn signed([id, time]: &[String; 2], body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = hmac::sign(&key, format!("{id}.{time}.{body}").as_bytes());
    format!("v1,{}", BASE64.encode(tag.as_ref()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_told_signed_again_where_it_fails_and_never_of_arguments() {
    let came = ReceivedEvents::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let router =
        axum::Router::new().route("/hook", post(receive_event)).with_state(Arc::clone(&came));
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, router).await });
    let bench = ApprovalHome::new(&format!(
        "approvals: {{ expires: 15s, webhook: {{ url: '{url}', secret: {SECRET} }} }}\n"
    ));
    let server = start_server(&bench.home).await;
    let (agent, owner) = (server.agent(), server.owner());
    let id = pending_call(&agent, 4_242).await;
    decide(&owner, &id, "approve", &json!({})).await;
    assert_eq!(resume(&agent, &id).await.status, 200);
    let forgotten = pending_call(&agent, 4_243).await;
    let done = |came: &[([String; 2], String, String)]| {
        let has = |state: &str| {
            let state = format!("\"state\":\"{state}\"");
            came.iter().any(|(_, _, body)| body.contains(&state))
        };
        has("done") && has("expired")
    };
    for _ in 0..3_000 {
        if done(&came.lock().unwrap()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let came = came.lock().unwrap().clone();
    assert!(done(&came), "{came:?}");
    // Each attempt has the id of its message, and each message its own.
    let ids: Vec<_> = came.iter().map(|([id, _], ..)| id.as_str()).collect();
    assert!(ids[0] == ids[1] && ids[0] == ids[2] && ids[3..].iter().all(|id| *id != ids[0]));
    let (mut told, mut later) = (Vec::new(), Vec::new());
    for (time, signature, body) in &came {
        assert_eq!(*signature, signed(time, body));
        assert_ne!(*signature, signed(time, &body.replace("wipe", "read")), "control");
        assert!(!body.contains("\"arguments\"") && !body.contains("\"n\":"), "{body}");
        let body: Value = serde_json::from_str(body).unwrap();
        let which = if body["approval"]["id"] == id.as_str() { &mut told } else { &mut later };
        assert!(
            body["approval"]["id"] == id.as_str() || body["approval"]["id"] == forgotten.as_str()
        );
        which.push(format!("{} {}", body["event"], body["approval"]["state"]));
    }
    assert_eq!(later, [r#""approval.held" "pending""#, r#""approval.changed" "expired""#]);
    let again = "\"approval.held\" \"pending\"";
    let changed = |state: &str| format!("\"approval.changed\" \"{state}\"");
    assert_eq!(told, [again, again, again, &changed("approved"), &changed("done")]);
    assert!(server.stop().await.success());
}
