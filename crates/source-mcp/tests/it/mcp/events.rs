//! Tests of event types (SEP-3415): they are listed and pinned, polled, and streamed as long calls.

use std::sync::Arc;
use std::time::Duration;

use mcp::events::EVENTS_EXTENSION;
use mcp::extensions::AllowedExtensions;
use serde_json::{Value, json};
use source_mcp::{EraSelection, HttpEndpoint, McpOptions, McpSource};
use testkit::mcp_fixture::{self, FixtureEra, FixtureOptions};
use tokio::time::timeout;
use tool::{CatalogItem, ErrorCode, EventDelivery, EventType, Json, Source as _, SourceName};

use super::peer::{Peer, Talk};
use super::runs::{Runner, Setup, Watch, body, runner};
use super::site::egress;

const SOON: Duration = Duration::from_secs(10);
const EVENT: &str = "notifications/events/event";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn event_types() -> Value {
    let of = |name: &str, delivery: &[&str]| json!({"name": name, "delivery": delivery, "inputSchema": {"type": "object"}, "x": 1.0});
    json!([of("made", &["poll", "push", "webhook"]), of("hooked", &["webhook"]), {"name": "odd"},
        of("polled", &["poll"])])
}

/// A server that answers a poll with its params, and streams as many events as the arguments say.
async fn serve(mut talk: Talk, era: EraSelection) -> String {
    let able = json!({"tools": {}, "extensions": {EVENTS_EXTENSION: {"listChanged": true}}});
    while let Some(request) = talk.hear().await {
        let params = &request["params"];
        let result = match request["method"].as_str() {
            Some("initialize") if era == EraSelection::Handshake => {
                json!({"protocolVersion": "2025-11-25", "capabilities": able})
            }
            Some("server/discover") if era == EraSelection::Stateless => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": able})
            }
            Some("events/list") if params.get("cursor").is_none() => {
                json!({"events": event_types(), "nextCursor": "2"})
            }
            Some("events/list") => json!({"events": [{"name": "later", "delivery": ["push"]}]}),
            Some("events/poll") => json!({"params": params}),
            Some("events/stream") => {
                stream_events(&mut talk, &request).await;
                continue;
            }
            _ => json!({"tools": []}),
        };
        if request.get("id").is_some() {
            talk.answer(&request, result).await;
        }
    }
    String::new()
}

async fn stream_events(talk: &mut Talk, request: &Value) {
    let count = request["params"]["arguments"]["count"].as_i64().unwrap();
    let say = |method: &str, id: &Value, n: i64| {
        let params = json!({"n": n, "_meta": {SUBSCRIPTION: id}});
        format!("{}\n", json!({"jsonrpc": "2.0", "method": method, "params": params}))
    };
    // Another subscription's event, and one that names none, belong to nobody.
    talk.write(&say(EVENT, &json!(999), -1)).await;
    talk.write(&say(EVENT, &Value::Null, -2)).await;
    talk.write(&say("notifications/events/active", &request["id"], 0)).await;
    // In one piece, so that the reader gets them at once.
    let all: String = (1..=count).map(|n| say(EVENT, &request["id"], n)).collect();
    talk.write(&all).await;
}

fn options(era: EraSelection, extensions: &[&str]) -> McpOptions {
    let extensions = AllowedExtensions::from_names(extensions.iter().map(|&it| it.to_owned()));
    McpOptions { era_selection: era, extensions, ..McpOptions::default() }
}

fn peer(era: EraSelection) -> Peer {
    Peer::new(move |talk| serve(talk, era))
}

#[tokio::test]
async fn event_types_are_listed_as_received_and_those_of_webhooks_alone_are_problems() {
    for era in [EraSelection::Handshake, EraSelection::Stateless] {
        let peer = peer(era);
        let source = peer.source("s", options(era, &[EVENTS_EXTENSION]));
        let listing = source.list_offers().await.unwrap();
        let events: Vec<&EventType> = listing
            .offers
            .iter()
            .filter_map(|offer| match &offer.item {
                CatalogItem::Event(event) => Some(event),
                _ => None,
            })
            .collect();
        let names: Vec<_> = events.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["s.made", "s.polled", "s.later"], "of all pages");
        let expected = EventDelivery { has_poll: true, has_push: true };
        assert_eq!(events[0].delivery, expected);
        assert_eq!(events[0].raw_definition.to_value(), event_types()[0]);
        let problems: Vec<_> = listing.problems.iter().map(|it| it.message.as_str()).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("neither `poll` nor `push`"), "{problems:?}");
        source.shut_down().await;
    }
}

#[tokio::test]
async fn a_source_that_may_not_relay_events_is_not_asked_for_them() {
    for era in [EraSelection::Handshake, EraSelection::Stateless] {
        for (extensions, has_events) in [(&[][..], false), (&[EVENTS_EXTENSION], true)] {
            let peer = peer(era);
            let source = peer.source("s", options(era, extensions));
            let listing = source.list_offers().await.unwrap();
            let of_events = |item: &CatalogItem| match item {
                CatalogItem::Method(method) => method.name.as_str().starts_with("mcp.events."),
                CatalogItem::Event(_) => true,
                _ => false,
            };
            let has = listing.offers.iter().any(|offer| of_events(&offer.item));
            assert_eq!(has, has_events);
            let was_asked = peer.heard().iter().any(|it| it["method"] == "events/list");
            assert_eq!(was_asked, has_events);
            source.shut_down().await;
        }
    }
}

#[tokio::test]
async fn a_poll_and_a_stream_are_calls_of_the_source() {
    for era in [EraSelection::Handshake, EraSelection::Stateless] {
        let peer = peer(era);
        let source = peer.source("s", options(era, &[EVENTS_EXTENSION]));
        let poll = runner(&source, "mcp.events.poll").await;
        let params = r#"{"name":"made","cursor":null,"maxEvents":3}"#;
        let answer: Value = serde_json::from_str(&body(&poll.call(params).await.unwrap())).unwrap();
        for (key, value) in
            json!({"name": "made", "cursor": null, "maxEvents": 3}).as_object().unwrap()
        {
            assert_eq!(&answer["params"][key], value, "{key}");
        }
        let stream = runner(&source, "mcp.events.stream").await;
        let watch = Arc::new(Watch::default());
        let (ended, ()) = tokio::join!(
            stream.watched(r#"{"name":"made","arguments":{"count":40}}"#, &watch),
            async {
                timeout(SOON, watch.heard(EVENT, 40)).await.unwrap();
                watch.cancel.cancel();
            }
        );
        assert_eq!(ended.unwrap_err().code, ErrorCode::Cancelled);
        let notices = watch.notices.lock().unwrap().clone();
        let numbers: Vec<_> = notices.iter().map(|(_, params)| params["n"].clone()).collect();
        let expected: Vec<_> = (0..=40).map(|n| json!(n)).collect();
        assert_eq!(numbers, expected, "in order, and none of another subscription");
        // The server is told that nobody reads any more.
        timeout(SOON, peer.hears(|it| it["method"] == "notifications/cancelled")).await.unwrap();
        source.shut_down().await;
    }
}

#[tokio::test]
async fn a_stream_that_is_read_too_slowly_ends_and_is_cancelled_at_its_server() {
    for era in [EraSelection::Handshake, EraSelection::Stateless] {
        let peer = peer(era);
        let source = peer.source("s", options(era, &[EVENTS_EXTENSION]));
        let stream = runner(&source, "mcp.events.stream").await;
        let watch = Watch::default();
        // In one piece, and far more than are queued.
        let many = r#"{"name":"made","arguments":{"count":5000}}"#;
        let ended = timeout(SOON, stream.watched(many, &watch)).await.unwrap();
        assert!(ended.is_err(), "{era:?}");
        timeout(SOON, peer.hears(|it| it["method"] == "notifications/cancelled")).await.unwrap();
        source.shut_down().await;
    }
}

/// The params that a client of 2026-07-28 declares its version with.
fn client_meta() -> Json {
    Json::encode(&json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}))
}

async fn poll_events(poll: &Runner, cursor: &Value) -> Value {
    let params = json!({"name": "counter.changed", "cursor": cursor}).to_string();
    let meta = client_meta();
    let setup = Setup { meta: Some(&meta), ..Setup::default() };
    let outcome = super::runs::done(poll.step(&params, setup).await.unwrap());
    serde_json::from_str(&body(&outcome)).unwrap()
}

/// A server over HTTP that shares no code with this client, in one era or both.
#[tokio::test]
async fn a_server_over_http_of_either_era_is_polled_and_streamed() {
    for era in [FixtureEra::Legacy, FixtureEra::Modern, FixtureEra::Both] {
        let fixture = mcp_fixture::start_event_fixture(FixtureOptions { era, page_size: 0 });
        let fixture = fixture.await.unwrap();
        let http = HttpEndpoint::new(&egress(), &fixture.url, &[]).unwrap();
        let name = SourceName::new("web").unwrap();
        let own = options(EraSelection::Detect, &[EVENTS_EXTENSION]);
        let source = McpSource::with_http(name, own, http);
        let listing = source.list_offers().await.unwrap();
        let is_event = |item: &CatalogItem| matches!(item, CatalogItem::Event(_));
        assert_eq!(listing.offers.iter().filter(|it| is_event(&it.item)).count(), 1, "{era:?}");
        let poll = runner(&source, "mcp.events.poll").await;
        let stream = runner(&source, "mcp.events.stream").await;
        let change = runner(&source, "web.test_update_watched_resource").await;
        let begun = poll_events(&poll, &Value::Null).await;
        assert_eq!(begun["events"], json!([]), "{era:?}");
        let (watch, meta) = (Watch::default(), client_meta());
        let setup = Setup { watch: Some(&watch), meta: Some(&meta), ..Setup::default() };
        let (ended, ()) =
            tokio::join!(stream.step(r#"{"name":"counter.changed"}"#, setup), async {
                timeout(SOON, watch.heard("notifications/events/active", 1)).await.unwrap();
                change.call("{}").await.unwrap();
                timeout(SOON, watch.heard(EVENT, 1)).await.unwrap();
                watch.cancel.cancel();
            });
        assert_eq!(ended.unwrap_err().code, ErrorCode::Cancelled, "{era:?}");
        let (_, sent) = watch.notices.lock().unwrap().last().unwrap().clone();
        let page = poll_events(&poll, &begun["cursor"]).await;
        assert_eq!(page["events"][0]["data"], sent["data"], "{era:?} {page}");
        assert_eq!(page["cursor"], sent["cursor"], "{era:?}");
        // What the server refuses is its own error.
        let refused = stream.call(r#"{"name":"counter.other"}"#).await.unwrap_err();
        assert_eq!(refused.rpc_error.unwrap().code, -32_023, "{era:?}");
        source.shut_down().await;
    }
}
