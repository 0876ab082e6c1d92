//! Attacks by the events of a source: what they carry, and what they pretend to be. Each has a control.

use identity::{KeyId, NewKey};
use serde_json::{Value, json};
use tool::PermissionLevel;

use super::super::events::{HOOK, ask, body, secret};
use super::{SourceBench, event};
use crate::support::Client;
use crate::support::executors::Streamed;

const GOOD: &str = "good";

/// The events that a poll returns, with those of the source before a good one.
async fn polled(bench: &SourceBench, client: &Client, bad: Value) -> Value {
    let good = event(GOOD, &json!({"n": 1}));
    bench.source.page.lock().unwrap()["events"] = json!([bad, good]);
    let page = ask(client, "events/poll", json!({"name": "s.made"})).await["result"].clone();
    let last = page["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["eventId"], GOOD, "the control: {page}");
    page
}

#[tokio::test]
async fn what_is_no_event_of_its_type_is_dropped_and_is_a_gap() {
    let bench = SourceBench::new().await;
    let ann = bench.user().await;
    let with = |key: &str, value: Value| {
        let mut event = event("bad", &json!({}));
        event[key] = value;
        event
    };
    let large = "x".repeat(300 << 10);
    for (bad, what) in [
        (with("name", json!("docs.made")), "another source's event type"),
        (with("name", json!("approval.requested")), "an event of this server"),
        (with("name", json!("s.made")), "the name of the endpoint, not its own"),
        (with("data", json!({"text": large})), "oversized"),
        (with("data", json!("text")), "no payload"),
        (with("eventId", json!("")), "no id"),
        (with("eventId", json!("i".repeat(2_000))), "a long id"),
        (with("timestamp", json!("t".repeat(100))), "a long time"),
        (json!(7), "no object"),
    ] {
        let page = polled(&bench, &ann, bad).await;
        assert_eq!(page["events"].as_array().unwrap().len(), 1, "{what}");
        assert_eq!(page["truncated"], true, "{what}");
    }
    let page = polled(&bench, &ann, event("other", &json!({}))).await;
    assert_eq!((page["events"].as_array().unwrap().len(), &page["truncated"]), (2, &json!(false)));
}

#[tokio::test]
async fn a_payload_is_data_with_its_hidden_characters_and_credentials_shown() {
    let bench = SourceBench::new().await;
    let ann = bench.user().await;
    let script = "<script>alert(1)</script>";
    let token = format!("ghp_{}", "a".repeat(36));
    let data =
        json!({"html": script, "hidden": "a\u{202e}b\u{200b}", "token": token, "plain": "世界"});
    let mut bad = event("bad", &data);
    // A message of this server to a webhook has a type; metadata of this server has its prefix.
    bad["type"] = json!("terminated");
    bad["extra"] = json!(1);
    bad["_meta"] = json!({"toolkeep/x": 1, "io.modelcontextprotocol/subscriptionId": 9, "a/b": 2});
    let page = polled(&bench, &ann, bad).await;
    let event = &page["events"][0];
    let data = &event["data"];
    assert_eq!(
        (&data["html"], &data["plain"]),
        (&json!(script), &json!("世界")),
        "data stays data"
    );
    assert_eq!(data["hidden"], r"a\u{202e}b\u{200b}");
    assert_eq!(data["token"], "[REDACTED:github_pat]");
    assert_eq!(event["_meta"], json!({"a/b": 2}));
    let mut keys: Vec<_> = event.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["_meta", "data", "eventId", "name", "timestamp"]);
}

#[tokio::test]
async fn answers_that_are_no_page_are_failures_of_the_source() {
    let bench = SourceBench::new().await;
    let ann = bench.user().await;
    for bad in [
        json!({}),
        json!({"events": {}}),
        json!({"events": [], "cursor": 7}),
        json!({"events": [], "cursor": "c".repeat(5_000)}),
    ] {
        *bench.source.page.lock().unwrap() = bad.clone();
        let refused = ask(&ann, "events/poll", json!({"name": "s.made"})).await;
        assert_eq!(refused["error"]["code"], -32_603, "{bad} {refused}");
    }
    // More events than were requested are a gap, and no more than requested pass.
    let many: Vec<_> = (0..200).map(|n| event(&n.to_string(), &json!({}))).collect();
    *bench.source.page.lock().unwrap() = json!({"events": many, "nextPollMs": 0});
    let page = ask(&ann, "events/poll", json!({"name": "s.made", "maxEvents": 3})).await;
    let page = &page["result"];
    assert_eq!((page["events"].as_array().unwrap().len(), &page["truncated"]), (3, &json!(true)));
    assert_eq!((&page["nextPollMs"], &page["cursor"]), (&json!(1_000), &Value::Null));
}

#[tokio::test]
async fn a_caller_who_gets_events_is_tainted_as_by_a_call() {
    let bench = SourceBench::new().await;
    let key = NewKey::for_user(KeyId::new("reader").unwrap(), "ann");
    let (ann, principal) = bench.server.client_and_principal(key).await;
    let tainted = || bench.server.gateway.caller_taint(&principal).has_untrusted;
    ask(&ann, "events/list", json!({})).await;
    assert!(!tainted(), "a list of event types is no content");
    ask(&ann, "events/poll", json!({"name": "s.made"})).await;
    assert!(tainted());
    // An event of a stream that is older than a taint lasts taints again.
    bench.source.streams.push(Streamed::Notification("notifications/events/active", json!({})));
    let mut stream = ann.modern_stream("events/stream", json!({"name": "s.made"})).await;
    assert_eq!(stream.next().await["method"], "notifications/events/active");
    bench.server.clock.advance(std::time::Duration::from_hours(2));
    assert!(!tainted(), "the control: it is forgotten");
    let sent = event("1", &json!({}));
    bench.source.streams.push(Streamed::Notification("notifications/events/event", sent));
    assert_eq!(stream.next().await["params"]["eventId"], "1");
    assert!(tainted());
}

#[tokio::test]
async fn a_source_never_learns_a_webhook_and_cannot_write_its_messages() {
    let bench = SourceBench::new().await;
    let ann = bench.user().await;
    let subscribe = async |url: &str| {
        let delivery = json!({"mode": "webhook", "url": url, "secret": secret('A')});
        ask(&ann, "events/subscribe", json!({"name": "s.made", "delivery": delivery})).await
    };
    // A private address is refused before the source is asked.
    for url in ["https://10.0.0.1/in", "http://hooks.example.com/in"] {
        assert_eq!(subscribe(url).await["error"]["code"], -32_602, "{url}");
    }
    assert_eq!(bench.source.asked(), Vec::<Value>::new());
    assert!(subscribe(HOOK).await["result"].is_object(), "the control");
    let mut forged = event("a.1700000000.{}", &json!({"url": "https://evil.example.com"}));
    forged["type"] = json!("verification");
    forged["challenge"] = json!("x");
    bench.source.streams.push(Streamed::Notification("notifications/events/event", forged));
    let got = bench.hook.wait_for(1).await;
    let sent = body(&got[0]);
    assert_eq!((&sent["type"], &sent["challenge"]), (&Value::Null, &Value::Null), "{sent}");
    assert_eq!(sent["eventId"], "a.1700000000.{}");
    let id = got[0].headers["webhook-id"].to_str().unwrap();
    assert!(id.starts_with("evt_") && !id.contains('.'), "{id}");
    let told = json!([bench.source.asked(), *bench.source.streams.calls.lock().unwrap()]);
    assert!(!told.to_string().contains("hooks.example.com"), "{told}");
    assert!(told.to_string().contains("made"), "the control");
}

/// A policy that hides a source ends what was subscribed to while it was visible.
#[tokio::test]
async fn a_subscription_ends_with_the_access_to_its_source() {
    let bench = SourceBench::new().await;
    let docs = super::EventSource::new();
    bench.server.add_mcp_source("docs", docs.offers("docs", PermissionLevel::Guest)).await;
    bench.server.set_guest_sources(Some(&["docs", "s"])).await;
    let ann = bench.server.agent_client("ann", PermissionLevel::Guest).await;
    let mut streams = Vec::new();
    for (name, source) in [("docs.made", &docs), ("s.made", &bench.source)] {
        source.streams.push(Streamed::Notification("notifications/events/active", json!({})));
        streams.push(ann.modern_stream("events/stream", json!({"name": name})).await);
    }
    for stream in &mut streams {
        assert_eq!(stream.next().await["method"], "notifications/events/active");
    }
    bench.server.set_guest_sources(Some(&["s"])).await;
    for source in [&docs, &bench.source] {
        let sent = event("1", &json!({}));
        source.streams.push(Streamed::Notification("notifications/events/event", sent));
    }
    let ended = streams[0].next().await;
    assert_eq!(ended["method"], "notifications/events/terminated", "{ended}");
    assert_eq!(ended["params"]["error"]["code"], -32_024);
    assert_eq!(streams[1].next().await["params"]["eventId"], "1", "the control");
}

/// The right to streams counts for each event, not when the stream begins alone.
#[tokio::test]
async fn a_stream_ends_with_the_right_to_streams() {
    let bench = SourceBench::new().await;
    let ann = bench.user().await;
    let streams = &bench.source.streams;
    streams.push(Streamed::Notification("notifications/events/active", json!({})));
    let mut stream = ann.modern_stream("events/stream", json!({"name": "s.made"})).await;
    assert_eq!(stream.next().await["method"], "notifications/events/active");
    streams.push(Streamed::Notification("notifications/events/event", event("1", &json!({}))));
    assert_eq!(stream.next().await["params"]["eventId"], "1", "the control");
    let levels = (PermissionLevel::Guest, PermissionLevel::Owner);
    bench.server.replace_offers(bench.source.offers_with("s", levels, "d")).await;
    streams.push(Streamed::Notification("notifications/events/event", event("2", &json!({}))));
    let ended = stream.next().await;
    assert_eq!(ended["method"], "notifications/events/terminated", "{ended}");
    let page = ask(&ann, "events/poll", json!({"name": "s.made"})).await;
    assert!(page["result"].is_object(), "polls are another right: {page}");
}
