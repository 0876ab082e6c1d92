//! The handlers of `events/list` and `events/poll`.

use identity::Principal;
use server_core::event_log::EventKind;
use tool::Json;

use super::event_reader::{EventReader, EventSubscription, occurrence};
use super::event_types::{describe_event, is_offered};
use super::require_own_events;
use crate::McpServerState;
use crate::request_context::RequestContext;
use crate::request_error::RequestError;
use crate::response_body::McpResponse;

/// Maximum and default number of events of one poll.
const MAX_POLL_EVENTS: usize = 100;
/// Time until the next poll, in milliseconds, when there is nothing more.
const NEXT_POLL_MS: u64 = 5_000;

/// The delivery modes that the event types of this server support.
fn delivery_modes(state: &McpServerState) -> &'static [&'static str] {
    match &state.components.webhooks {
        Some(_) => &["poll", "push", "webhook"],
        None => &["poll", "push"],
    }
}

/// The event types of this server that a caller may subscribe to.
fn own_event_types(state: &McpServerState, principal: &Principal) -> Vec<Json> {
    let offered = |kind: &EventKind| is_offered(state, principal, *kind);
    let kinds = EventKind::ALL.into_iter().filter(offered);
    kinds.map(|kind| describe_event(kind, delivery_modes(state))).collect()
}

/// Handles the method `events/list`.
pub(crate) fn list_events(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    require_own_events(request)?;
    let types = own_event_types(request.caller.state, request.caller.principal);
    let result = Json::object_from([("events", &Json::array_of(&types))]);
    Ok(request.encode_result(&result))
}

/// Handles the method `events/poll`.
pub(crate) fn poll_events(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    require_own_events(request)?;
    let subscription = EventSubscription::parse(request)?;
    let [max_events] = request.pick_params(["maxEvents"]);
    let max_events = max_events.filter(|json| json.kind() != "null");
    let limit = match max_events.map(|json| json.decode::<usize>()) {
        None => MAX_POLL_EVENTS,
        Some(Ok(limit)) if limit > 0 => limit.min(MAX_POLL_EVENTS),
        Some(_) => {
            let message = "`params.maxEvents` must be a number of at least 1";
            return Err(RequestError::invalid_params(message));
        }
    };
    let mut reader = EventReader::start(request, subscription)?;
    let state = request.caller.state;
    let page = reader.next_page(state, limit);
    let events: Vec<Json> = page.events.iter().map(|event| occurrence(event, None)).collect();
    let epoch = state.components.events.epoch();
    let cursor = reader.cursor_at(&state.mcp_components.event_cursors, epoch, reader.position);
    let result = Json::object_from([
        ("events", &Json::array_of(&events)),
        ("cursor", &cursor),
        ("truncated", &Json::encode(&page.is_truncated)),
        ("hasMore", &Json::encode(&page.has_more)),
        ("nextPollMs", &Json::encode(&NEXT_POLL_MS)),
    ]);
    Ok(request.encode_result(&result))
}
