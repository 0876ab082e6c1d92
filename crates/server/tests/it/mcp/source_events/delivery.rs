//! Tests of streams and webhooks for events of sources.

use serde_json::{Value, json};
use server_core::webhook::WebhookSecret;

use super::super::events::{HOOK, ask, body, secret};
use super::{SourceBench, event};
use crate::support::Client;
use crate::support::executors::Streamed;
use crate::support::test_server::within_a_minute;

const ACTIVE: &str = "notifications/events/active";
const EVENT: &str = "notifications/events/event";

/// An event with the source's cursor after it.
fn event_at(id: &str, cursor: &str) -> Value {
    let mut event = event(id, &json!({}));
    event["cursor"] = json!(cursor);
    event
}

async fn wait_until(is_so: impl Fn() -> bool) {
    within_a_minute(async {
        while !is_so() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_relays_what_the_source_sends_and_seals_its_cursors() {
    let bench = SourceBench::new().await;
    let (ann, streams) = (bench.user().await, &bench.source.streams);
    streams.push(Streamed::Notification(ACTIVE, json!({"cursor": "c0", "truncated": true})));
    streams.push(Streamed::Notification(EVENT, event_at("1", "cursor-of-the-source")));
    let failure =
        json!({"error": {"code": -32_603, "message": "busy\u{200b}", "data": {}, "x": 1}});
    streams.push(Streamed::Notification("notifications/events/error", failure));
    streams.push(Streamed::Notification("notifications/message", json!({"level": "error"})));
    let ended = json!({"error": {"code": -32_024, "message": "Forbidden"}});
    streams.push(Streamed::Notification("notifications/events/terminated", ended));
    let params = json!({"name": "s.made", "arguments": {"a": 1}});
    let mut stream = ann.modern_stream("events/stream", params).await;
    let active = stream.next().await;
    assert_eq!((&active["method"], &active["params"]["truncated"]), (&json!(ACTIVE), &json!(true)));
    let sent = stream.next().await;
    assert_eq!((&sent["method"], &sent["params"]["name"]), (&json!(EVENT), &json!("s.made")));
    assert!(sent["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].is_number());
    let cursor = sent["params"]["cursor"].clone();
    assert!(!cursor.as_str().unwrap().contains("cursor-of-the-source"));
    let error = stream.next().await["params"]["error"].clone();
    assert_eq!(error, json!({"code": -32_603, "message": r"busy\u{200b}", "data": {}}));
    let ended = stream.next().await;
    assert_eq!(ended["method"], "notifications/events/terminated", "{ended}");
    assert_eq!(stream.next().await["result"]["resultType"], "complete");
    let expected = json!({"name": "made", "arguments": {"a": 1}, "cursor": null});
    assert_eq!(*streams.calls.lock().unwrap(), [expected]);
    let intent = bench.server.recorded_intents().pop().unwrap();
    assert_eq!(intent.tool_key.name.as_str(), "mcp.events.stream");
    // A poll goes on where the stream ended.
    ask(&ann, "events/poll", json!({"name": "s.made", "cursor": cursor})).await;
    assert_eq!(bench.source.asked()[0]["cursor"], "cursor-of-the-source");
}

#[tokio::test]
async fn a_stream_that_the_source_refuses_is_its_error_and_one_that_breaks_is_opened_anew() {
    let bench = SourceBench::new().await;
    let (ann, streams) = (bench.user().await, &bench.source.streams);
    streams.push(Streamed::Refuse(-32_602));
    let refused = ask(&ann, "events/stream", json!({"name": "s.made"})).await;
    assert_eq!(refused["error"]["code"], -32_602, "{refused}");
    streams.push(Streamed::Notification(ACTIVE, json!({"cursor": "c0"})));
    streams.push(Streamed::Notification(EVENT, event_at("1", "c1")));
    streams.push(Streamed::Notification("notifications/events/heartbeat", json!({"cursor": "c2"})));
    streams.push(Streamed::End);
    streams.push(Streamed::Notification(ACTIVE, json!({"cursor": "c2"})));
    streams.push(Streamed::Notification(EVENT, event_at("3", "c3")));
    streams.push(Streamed::Refuse(-32_023));
    let mut stream = ann.modern_stream("events/stream", json!({"name": "s.made"})).await;
    assert_eq!(stream.next().await["method"], ACTIVE);
    assert_eq!(stream.next().await["params"]["eventId"], "1");
    // Nothing is missing, so nothing is said of it.
    assert_eq!(stream.next().await["params"]["eventId"], "3");
    let ended = stream.next().await;
    assert_eq!(ended["params"]["error"]["code"], -32_023, "{ended}");
    let cursors: Vec<_> =
        streams.calls.lock().unwrap().iter().map(|it| it["cursor"].clone()).collect();
    assert_eq!(cursors, [Value::Null, Value::Null, json!("c2")]);
}

#[tokio::test]
async fn a_source_that_floods_holds_no_memory_and_loses_nothing() {
    let bench = SourceBench::new().await;
    let (ann, streams) = (bench.user().await, &bench.source.streams);
    streams.push(Streamed::Notification(ACTIVE, json!({"cursor": "c0"})));
    // More at once than are queued: the rest of this call is lost, and requested again.
    for n in 1..=200 {
        streams.push(Streamed::Notification(EVENT, event_at(&n.to_string(), &n.to_string())));
    }
    let mut stream = ann.modern_stream("events/stream", json!({"name": "s.made"})).await;
    assert_eq!(stream.next().await["method"], ACTIVE);
    let first = stream.next().await;
    assert_eq!(first["params"]["eventId"], "1");
    wait_until(|| streams.calls.lock().unwrap().len() == 2).await;
    let mut last = first;
    let again = loop {
        let calls = streams.calls.lock().unwrap().clone();
        let from = calls[1]["cursor"].as_str().unwrap().to_owned();
        if last["params"]["eventId"] == json!(from) {
            break from;
        }
        last = stream.next().await;
    };
    assert!(again.parse::<usize>().unwrap() < 200, "{again}");
    streams.push(Streamed::Notification(EVENT, event_at("end", "end")));
    loop {
        if stream.next().await["params"]["eventId"] == "end" {
            break;
        }
    }
}

async fn subscribe(client: &Client, name: &str, arguments: Value) -> Value {
    let delivery = json!({"mode": "webhook", "url": HOOK, "secret": secret('A')});
    let params = json!({"name": name, "arguments": arguments, "delivery": delivery});
    ask(client, "events/subscribe", params).await
}

#[tokio::test]
async fn a_webhook_gets_the_events_of_a_stream_signed_and_in_order() {
    let bench = SourceBench::new().await;
    let (ann, streams) = (bench.user().await, &bench.source.streams);
    let granted = subscribe(&ann, "s.made", json!({"a": 1, "b": 2})).await["result"].clone();
    assert!(granted["refreshBefore"].is_string() && granted["cursor"].is_string(), "{granted}");
    let expected =
        json!({"name": "made", "arguments": {"a": 1, "b": 2}, "cursor": null, "maxEvents": 1});
    assert_eq!(bench.source.asked(), [expected], "a poll finds the position");
    streams.push(Streamed::Notification(EVENT, event_at("1", "c1")));
    streams.push(Streamed::Notification(EVENT, event_at("2", "c2")));
    let got = bench.hook.wait_for(2).await;
    assert_eq!(streams.calls.lock().unwrap()[0]["cursor"], "history-7");
    let ids: Vec<_> = got.iter().map(|it| body(it)["eventId"].clone()).collect();
    assert_eq!(ids, ["1", "2"]);
    let header = |name: &str| got[0].headers[name].to_str().unwrap().to_owned();
    assert_eq!(
        (header("webhook-id"), &json!(header("x-mcp-subscription-id"))),
        ("1".to_owned(), &granted["id"])
    );
    let sign = |secret: &str| {
        let secret = WebhookSecret::parse(secret).unwrap();
        secret.sign_message(&header("webhook-id"), &header("webhook-timestamp"), &got[0].body)
    };
    assert_eq!(header("webhook-signature"), sign(&secret('A')));
    assert_ne!(header("webhook-signature"), sign(&secret('B')), "control");
    // The cursor of a message is before its event: a poll from there has the event again.
    let from = body(&got[1])["cursor"].clone();
    ask(&ann, "events/poll", json!({"name": "s.made", "cursor": from})).await;
    assert_eq!(bench.source.asked()[1]["cursor"], "c1");
    // The order of arguments makes no other subscription; other arguments do.
    let same = subscribe(&ann, "s.made", json!({"b": 2, "a": 1})).await["result"].clone();
    assert_eq!((&same["id"], &same["deliveryStatus"]["active"]), (&granted["id"], &json!(true)));
    let other = subscribe(&ann, "s.made", json!({"a": 2})).await["result"].clone();
    assert_ne!(other["id"], granted["id"]);
}

#[tokio::test]
async fn a_webhook_gets_the_events_of_polls_and_hears_of_a_gap() {
    let bench = SourceBench::new().await;
    let ann = bench.user().await;
    let page = json!({"events": [], "cursor": "c0", "hasMore": false});
    *bench.source.page.lock().unwrap() = page;
    assert!(subscribe(&ann, "s.polled", json!({})).await["result"].is_object());
    let mut sent = event("1", &json!({}));
    sent["name"] = json!("polled");
    // It has no stream, so it is polled.
    wait_until(|| bench.source.asked().len() >= 2).await;
    assert_eq!(bench.source.asked()[1]["cursor"], "c0");
    *bench.source.page.lock().unwrap() =
        json!({"events": [sent], "cursor": "c1", "truncated": true});
    let got = bench.hook.wait_for(2).await;
    assert_eq!(body(&got[0])["type"], "gap", "{}", body(&got[0]));
    assert_eq!(body(&got[1])["eventId"], "1");
    assert_eq!(bench.source.streams.calls.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_webhook_of_a_source_ends_with_its_caller_its_source_or_its_request() {
    let bench = SourceBench::new().await;
    let (ann, bob) = (bench.user().await, bench.user().await);
    let streams = &bench.source.streams;
    // A source that refuses the poll refuses the subscription.
    *bench.source.page.lock().unwrap() = json!({});
    assert_eq!(subscribe(&ann, "s.made", json!({})).await["error"]["code"], -32_603);
    *bench.source.page.lock().unwrap() = json!({"events": [], "cursor": "c0"});
    assert!(subscribe(&ann, "s.made", json!({})).await["result"].is_object());
    wait_until(|| streams.calls.lock().unwrap().len() == 1).await;
    let ended = json!({"error": {"code": -32_023, "message": "NotFound"}});
    streams.push(Streamed::Notification("notifications/events/terminated", ended));
    let got = bench.hook.wait_for(1).await;
    let sent = body(&got[0]);
    assert_eq!((&sent["type"], &sent["error"]["code"]), (&json!("terminated"), &json!(-32_023)));
    // Unsubscribed, it gets nothing more.
    assert!(subscribe(&ann, "s.made", json!({})).await["result"].is_object());
    wait_until(|| streams.calls.lock().unwrap().len() == 2).await;
    let end = json!({"name": "s.made", "arguments": {}, "delivery": {"url": HOOK}});
    assert!(ask(&ann, "events/unsubscribe", end.clone()).await["result"].is_object());
    assert_eq!(ask(&ann, "events/unsubscribe", end).await["error"]["code"], -32_023);
    // The access of a key ends its webhook.
    assert!(subscribe(&bob, "s.made", json!({})).await["result"].is_object());
    wait_until(|| streams.calls.lock().unwrap().len() == 3).await;
    bench.server.revoke_key(&bob).await;
    streams.push(Streamed::Notification(EVENT, event_at("9", "c9")));
    let got = bench.hook.wait_for(2).await;
    let last = body(&got[1]);
    assert_eq!((&last["type"], &last["error"]["code"]), (&json!("terminated"), &json!(-32_024)));
    assert!(!got.iter().any(|it| body(it)["eventId"] == "9"), "no event after the end");
}
