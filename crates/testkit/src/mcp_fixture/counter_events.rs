//! Events of the fixture (SEP-3415): one for each change of the watched resource, by polls and streams.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::event_stream::{self, FixtureResponse};
use super::fixture_state::FixtureState;
use super::json_rpc::{FixtureRequest, RpcError, notification_message};

/// Name of the extension.
pub(super) const EVENTS_EXTENSION: &str = "io.modelcontextprotocol/events";
/// Name of the only event type.
const EVENT_NAME: &str = "counter.changed";

/// Lists the event type.
pub(super) fn list_types() -> Value {
    let of = |members: Value| json!({ "type": "object", "properties": members });
    json!({ "events": [{
        "name": EVENT_NAME,
        "description": "The watched resource has changed.",
        "delivery": ["poll", "push"],
        "inputSchema": of(json!({ "minimum": { "type": "integer" } })),
        "payloadSchema": of(json!({ "count": { "type": "integer" } })),
    }] })
}

/// What a request subscribes to: the least count, and the count after which it begins.
struct CounterSubscription {
    minimum: u64,
    from: Option<u64>,
}

impl CounterSubscription {
    fn parse(request: &FixtureRequest) -> Result<Self, RpcError> {
        let name = request.text_param("name")?;
        if name != EVENT_NAME {
            let fault = RpcError::new(-32023, "NotFound");
            return Err(fault.with_data(json!({ "kind": "event" })));
        }
        let arguments = request.params.get("arguments").cloned().unwrap_or_else(|| json!({}));
        let minimum = arguments.get("minimum").map_or(Some(0), Value::as_u64);
        let minimum = minimum.ok_or_else(|| RpcError::invalid_params("`minimum` is no number"))?;
        let cursor = request.params.get("cursor").and_then(Value::as_str);
        let from = cursor.and_then(|cursor| cursor.strip_prefix("count-")?.parse().ok());
        Ok(Self { minimum, from })
    }

    /// The events after a count, up to another.
    fn events(&self, after: u64, to: u64) -> Vec<(u64, Value)> {
        let counts = (after + 1..=to).filter(|count| *count >= self.minimum);
        counts
            .map(|count| {
                let event = json!({ "eventId": format!("change-{count}"), "name": EVENT_NAME,
                    "timestamp": "2026-11-01T00:00:00Z", "data": { "count": count } });
                (count, event)
            })
            .collect()
    }
}

fn cursor_of(count: u64) -> String {
    format!("count-{count}")
}

/// Answers one poll of a client.
pub(super) fn poll(fixture: &FixtureState, request: &FixtureRequest) -> Result<Value, RpcError> {
    let subscription = CounterSubscription::parse(request)?;
    let now = fixture.watched_changes.load(Ordering::SeqCst);
    let events = subscription.events(subscription.from.unwrap_or(now), now);
    let events: Vec<_> = events.into_iter().map(|(_, event)| event).collect();
    Ok(json!({ "events": events, "cursor": cursor_of(now), "truncated": false, "hasMore": false,
        "nextPollMs": 1_000 }))
}

/// Opens a stream of the events from now on, or since a cursor.
pub(super) fn open_stream(
    fixture: &Arc<FixtureState>,
    request: &FixtureRequest,
) -> Result<FixtureResponse, RpcError> {
    let subscription = CounterSubscription::parse(request)?;
    let (id, mut changes) = (request.id.clone(), fixture.changes.subscribe());
    let world = Arc::clone(fixture);
    Ok(event_stream::event_response(|out| async move {
        let send = async |method: &str, mut params: Value| {
            params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": id });
            out.send_message(&notification_message(method, &params)).await;
        };
        let now = || world.watched_changes.load(Ordering::SeqCst);
        let mut seen = subscription.from.unwrap_or_else(now);
        let begun = json!({ "cursor": cursor_of(seen), "truncated": false });
        send("notifications/events/active", begun).await;
        loop {
            let to = now();
            for (count, mut event) in subscription.events(seen, to) {
                event["cursor"] = json!(cursor_of(count));
                send("notifications/events/event", event).await;
            }
            seen = to;
            if let Err(RecvError::Closed) = changes.recv().await {
                break;
            }
        }
    }))
}
