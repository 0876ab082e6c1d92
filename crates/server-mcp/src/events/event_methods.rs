//! The handlers of `events/list` and `events/poll`.

use catalog::{SourceCatalog, own_item_name};
use gateway::CatalogView;
use identity::Principal;
use server_core::event_log::EventKind;
use server_core::tool_lists::MAX_PAGE_TOOLS;
use tool::{EventDelivery, EventType, Json};

use super::event_params::{StartParams, parse_event_name, parse_max_events};
use super::event_reader::{EventReader, EventSubscription, occurrence};
use super::event_types::{describe_event, is_offered};
use super::source_calls::poll_source;
use super::source_subscription::{SourceSubscription, usable_delivery};
use super::{SubscribedType, require_events, subscribed_type, unsupported_mode};
use crate::McpServerState;
use crate::endpoint::Endpoint;
use crate::request_context::{RequestContext, require_string};
use crate::request_error::RequestError;
use crate::response_body::McpResponse;
use crate::source_items::{self, EVENT_METHOD};

/// Time until the next poll, in milliseconds, when there is nothing more.
const NEXT_POLL_MS: u64 = 5_000;

/// The delivery modes of an event type, as this server supports them.
fn delivery_modes(state: &McpServerState, delivery: EventDelivery) -> Vec<&'static str> {
    let EventDelivery { has_poll, has_push } = delivery;
    let has_webhook = (has_poll || has_push) && state.components.webhooks.is_some();
    let modes = [(has_poll, "poll"), (has_push, "push"), (has_webhook, "webhook")];
    modes.into_iter().filter(|(has, _)| *has).map(|(_, mode)| mode).collect()
}

/// The event types of this server that a caller may subscribe to.
fn own_event_types(state: &McpServerState, principal: &Principal) -> Vec<(String, Json)> {
    let offered = |kind: &EventKind| is_offered(state, principal, *kind);
    let modes = delivery_modes(state, EventDelivery { has_poll: true, has_push: true });
    let kinds = EventKind::ALL.into_iter().filter(offered);
    kinds.map(|kind| (kind.as_str().to_owned(), describe_event(kind, &modes))).collect()
}

/// The event types of a source, with the names and the delivery modes that they have at the endpoint.
fn source_event_types<'a>(
    request: &'a RequestContext<'_>,
    (view, source): (&'a CatalogView, &'a SourceCatalog),
) -> impl Iterator<Item = (String, Json)> + 'a {
    let endpoint = request.caller.endpoint;
    let state = request.caller.state;
    let describe = move |(event, own_name): (&EventType, String)| {
        let name = match endpoint {
            Endpoint::AllSources { .. } => event.name.to_string(),
            Endpoint::Source(_) => own_name,
        };
        // One that cannot be found by its name is not listed.
        source_items::find_event(endpoint, view, &name)?;
        let usable = usable_delivery(event.delivery, view, source.source.as_str());
        let modes = delivery_modes(state, usable);
        let definition = event.raw_definition.with_member("name", &Json::encode(&name));
        (!modes.is_empty())
            .then(|| (name, definition.with_member("delivery", &Json::encode(&modes))))
    };
    let own_name = |event: &EventType| own_item_name(&event.raw_definition).into();
    source.events.iter().map(move |event| (event, own_name(event))).filter_map(describe)
}

/// Handles the method `events/list`.
pub(super) fn list_events(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let view = request.caller.tool_view();
    let only = require_events(request, &view)?;
    let own = match only {
        None => own_event_types(request.caller.state, request.caller.principal),
        Some(_) => Vec::new(),
    };
    let all_sources = only.is_none().then(|| view.sources_with_method(EVENT_METHOD));
    let sources = only.into_iter().chain(all_sources.into_iter().flatten());
    let types = sources.flat_map(|source| source_event_types(request, (&view, source)));
    let mut types = own.into_iter().chain(types).peekable();
    let cursor = request.named_params.cursor.as_ref().filter(|cursor| cursor.kind() != "null");
    if let Some(cursor) = cursor {
        let cursor = require_string("cursor", Some(cursor))?;
        if !types.by_ref().any(|(name, _)| name == cursor) {
            let message = "the event type of the cursor no longer exists; list from the beginning";
            return Err(RequestError::invalid_params(message));
        }
    }
    let page: Vec<_> = types.by_ref().take(MAX_PAGE_TOOLS).collect();
    let next = page.last().filter(|_| types.peek().is_some()).map(|(name, _)| Json::encode(name));
    let events = Json::array_of(page.iter().map(|(_, event)| event));
    let members = [Some(("events", &events)), next.as_ref().map(|next| ("nextCursor", next))];
    Ok(request.encode_result(&Json::object_from(members.into_iter().flatten())))
}

/// Handles the method `events/poll`.
pub(super) async fn poll_events(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    match subscribed_type(request)? {
        SubscribedType::Own => poll_own_events(request),
        SubscribedType::Source => Box::pin(poll_source_events(request)).await,
    }
}

fn poll_own_events(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let subscription = EventSubscription::parse(request)?;
    let limit = parse_max_events(request)?;
    let mut reader = EventReader::start(request, subscription)?;
    let state = request.caller.state;
    let page = reader.next_page(state, limit);
    let events: Vec<Json> = page.events.iter().map(|event| occurrence(event, None)).collect();
    let epoch = state.components.events.epoch();
    let cursor = reader.cursor_at(&state.mcp_components.event_cursors, epoch, reader.position);
    Ok(request.encode_result(&poll_result(
        (&events, &cursor),
        (page.is_truncated, page.has_more),
        NEXT_POLL_MS,
    )))
}

async fn poll_source_events(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let state = request.caller.state;
    let subscription = SourceSubscription::parse(request, &parse_event_name(request)?)?;
    if !subscription.usable_delivery(state).has_poll {
        return Err(unsupported_mode("poll"));
    }
    let limit = parse_max_events(request)?;
    let key = &state.mcp_components.event_cursors;
    let position = subscription.open_position(key, &StartParams::parse(request)?);
    let page = match poll_source(state, &subscription, (&position, limit)).await {
        Ok(page) => page,
        Err(failure) => {
            return Ok(request.result_encoder().encode_failure(&failure, true).into_response());
        }
    };
    let events: Vec<_> =
        page.events.iter().map(|event| subscription.events.write_event(event, None)).collect();
    let cursor = subscription.seal_cursor(key, page.cursor.as_deref());
    let is_truncated = page.is_truncated || position.is_truncated;
    Ok(request.encode_result(&poll_result(
        (&events, &cursor),
        (is_truncated, page.has_more),
        page.next_poll_ms,
    )))
}

fn poll_result(
    (events, cursor): (&[Json], &Json),
    (is_truncated, has_more): (bool, bool),
    next_poll_ms: u64,
) -> Json {
    Json::object_from([
        ("events", &Json::array_of(events)),
        ("cursor", cursor),
        ("truncated", &Json::encode(&is_truncated)),
        ("hasMore", &Json::encode(&has_more)),
        ("nextPollMs", &Json::encode(&next_poll_ms)),
    ])
}
