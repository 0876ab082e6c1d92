//! The events extension of MCP 2026-07-28 (SEP-3415): events of this server, for callers who may see
//! the thing that an event is about.
//!
//! Events are of this process: they are neither stored nor replayed after a restart, and a cursor of
//! an earlier process begins anew, with `truncated`.

mod event_errors;
mod event_methods;
mod event_reader;
mod event_stream;
mod event_types;
mod subscribe_methods;
mod webhook_subscription;
mod webhook_table;

pub(crate) use event_methods::{list_events, poll_events};
pub(crate) use event_reader::CursorKey;
pub(crate) use event_stream::open_event_stream;
pub(crate) use subscribe_methods::{subscribe_events, unsubscribe_events};
pub(crate) use webhook_table::WebhookTable;

use mcp::events::EVENTS_EXTENSION;
use tool::Json;

use crate::endpoint::Endpoint;
use crate::request_context::RequestContext;
use crate::request_error::RequestError;

/// Declares the extension in the capabilities of an endpoint that has events.
pub(crate) fn declare_in(request: &RequestContext<'_>, capabilities: &Json) -> Json {
    if require_own_events(request).is_err() {
        return capabilities.clone();
    }
    let others = capabilities.get("extensions").unwrap_or_else(Json::empty_object);
    let extensions = others.with_member(EVENTS_EXTENSION, &Json::empty_object());
    capabilities.with_member("extensions", &extensions)
}

/// Rejects a request at an endpoint without events of this server.
fn require_own_events(request: &RequestContext<'_>) -> Result<(), RequestError> {
    match request.caller.endpoint {
        Endpoint::AllSources { .. } => Ok(()),
        Endpoint::Source(_) => Err(request.method_not_found()),
    }
}
