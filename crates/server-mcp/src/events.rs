//! The events extension of MCP 2026-07-28 (SEP-3415): events of this server, for callers who may see
//! the thing that an event is about, and events of sources, for callers who may use the source.
//!
//! Events of this server are of this process: they are neither stored nor replayed after a restart, and
//! a cursor of an earlier process begins anew, with `truncated`. Events of a source are read from it for
//! each subscription; nothing of them is kept.

mod client_stream;
mod event_errors;
mod event_methods;
mod event_params;
mod event_reader;
mod event_stream;
mod event_types;
mod feed_slots;
mod source_calls;
mod source_event_stream;
mod source_feed;
mod source_page;
mod source_subscription;
mod source_webhook;
mod subscribe_methods;
mod webhook_subscription;
mod webhook_table;

pub(crate) use event_reader::CursorKey;
pub(crate) use feed_slots::FeedSlots;
pub(crate) use webhook_table::WebhookTable;

use std::sync::Arc;

use catalog::SourceCatalog;
use event_errors::unsupported_mode;
use event_methods::{list_events, poll_events};
use event_params::parse_event_name;
use event_stream::open_event_stream;
use gateway::CatalogView;
use mcp::events::EVENTS_EXTENSION;
use server_core::event_log::EventKind;
use subscribe_methods::{subscribe_events, unsubscribe_events};
use tool::Json;

use crate::endpoint::Endpoint;
use crate::request_context::RequestContext;
use crate::request_error::RequestError;
use crate::response_body::McpResponse;
use crate::source_items::{EVENT_METHOD, endpoint_source};

/// Whose event type a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubscribedType {
    /// One of this server, or an unknown one.
    Own,
    /// One of a source, or an unknown one.
    Source,
}

/// Handles the methods of the extension.
pub(crate) async fn handle_event_method(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    match request.method {
        "events/list" => list_events(request),
        "events/poll" => poll_events(request).await,
        "events/stream" => open_event_stream(request).await,
        "events/subscribe" => subscribe_events(request).await,
        "events/unsubscribe" => unsubscribe_events(request),
        _ => Err(request.method_not_found()),
    }
}

/// Declares the extension in the capabilities of an endpoint that has events.
pub(crate) fn declare_in(request: &RequestContext<'_>, capabilities: &Json) -> Json {
    if require_events(request, &request.caller.tool_view()).is_err() {
        return capabilities.clone();
    }
    let others = capabilities.get("extensions").unwrap_or_else(Json::empty_object);
    let extensions = others.with_member(EVENTS_EXTENSION, &Json::empty_object());
    capabilities.with_member("extensions", &extensions)
}

/// Returns the endpoint's source if it serves one. Rejects a request at the endpoint of a source without
/// events.
fn require_events<'v>(
    request: &RequestContext<'_>,
    view: &'v CatalogView,
) -> Result<Option<&'v Arc<SourceCatalog>>, RequestError> {
    endpoint_source(request, view, EVENT_METHOD)
}

/// Returns whose event type a request names.
fn subscribed_type(request: &RequestContext<'_>) -> Result<SubscribedType, RequestError> {
    require_events(request, &request.caller.tool_view())?;
    let name = parse_event_name(request)?;
    Ok(match request.caller.endpoint {
        Endpoint::AllSources { .. } if EventKind::parse(&name).is_some() => SubscribedType::Own,
        Endpoint::AllSources { .. } | Endpoint::Source(_) => SubscribedType::Source,
    })
}
