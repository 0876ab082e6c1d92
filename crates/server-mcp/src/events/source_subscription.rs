//! A subscription to an event type of a source: what is requested, who requests it, and its cursors.

use std::sync::Arc;

use gateway::CallTarget;
use identity::Principal;
use server_core::server_state::StateInner;
use tool::{CallerType, EventDelivery, Json};

use super::event_errors::unknown_event;
use super::event_params::StartParams;
use super::event_reader::{CursorKey, renew_principal};
use crate::endpoint::Endpoint;
use crate::request_context::RequestContext;
use crate::request_error::RequestError;
use crate::source_items::{self, EVENT_METHOD};

/// The method whose right a stream needs besides [`EVENT_METHOD`].
pub(super) const STREAM_METHOD: &str = "mcp.events.stream";

/// An event type of a source, with the arguments of a subscription.
#[derive(Debug)]
pub(super) struct SourceEvents {
    /// The name by which the client knows the event type.
    pub(super) name: String,
    /// The source, and the name of the event type there.
    pub(super) source: String,
    pub(super) own_name: String,
    pub(super) delivery: EventDelivery,
    pub(super) arguments: Option<Json>,
}

impl SourceEvents {
    /// Returns the target of a call of one of the methods.
    pub(super) fn call_target(&self, method: &'static str) -> CallTarget {
        CallTarget::Method { source: self.source.clone(), name: method.into() }
    }
}

/// A subscription of one caller.
#[derive(Debug, Clone)]
pub(super) struct SourceSubscription {
    pub(super) events: Arc<SourceEvents>,
    pub(super) principal: Principal,
    endpoint: Endpoint,
    /// What the cursors are bound to: organization, key and endpoint.
    owner: [Box<str>; 3],
}

/// Where a subscription begins.
#[derive(Debug, Clone, Default)]
pub(super) struct SourcePosition {
    /// The source's cursor; `None` for now.
    pub(super) cursor: Option<String>,
    /// Whether the subscription begins later than the client's cursor.
    pub(super) is_truncated: bool,
    pub(super) max_age_ms: Option<u64>,
}

impl SourceSubscription {
    /// Parses a subscription to an event type of a source that the caller sees.
    pub(super) fn parse(request: &RequestContext<'_>, name: &str) -> Result<Self, RequestError> {
        let caller = request.caller;
        let view = caller.tool_view();
        let found = source_items::find_event(caller.endpoint, &view, name);
        let (item, event) = found.ok_or_else(|| unknown_event(name))?;
        let arguments = request.named_params.arguments.clone();
        let arguments = arguments.filter(|json| json.kind() != "null");
        if arguments.as_ref().is_some_and(|json| json.kind() != "object") {
            return Err(RequestError::invalid_params("`params.arguments` must be an object"));
        }
        let events = SourceEvents {
            name: name.to_owned(),
            source: item.source.source.to_string(),
            own_name: item.own_name,
            delivery: event.delivery,
            arguments,
        };
        Ok(Self {
            events: Arc::new(events),
            principal: caller.principal.clone(),
            endpoint: caller.endpoint.clone(),
            owner: caller.endpoint.owner_binding(caller.principal).map(Into::into),
        })
    }

    fn binding(&self) -> [&str; 5] {
        let [org, key, endpoint] = &self.owner;
        [org, key, endpoint, &self.events.source, &self.events.own_name]
    }

    /// Opens the client's cursor. One that cannot be opened begins now, and is a gap.
    pub(super) fn open_position(&self, key: &CursorKey, start: &StartParams) -> SourcePosition {
        let opened = start.cursor.as_ref().map(|it| key.open_source_cursor(&self.binding(), it));
        SourcePosition {
            is_truncated: opened == Some(None),
            cursor: opened.flatten(),
            max_age_ms: start.max_age_ms,
        }
    }

    /// Seals a cursor of the source, so that it moves to no other caller, endpoint or event type.
    pub(super) fn seal_cursor(&self, key: &CursorKey, cursor: Option<&str>) -> Json {
        Json::encode(&cursor.and_then(|it| key.seal_source_cursor(&self.binding(), it)))
    }

    /// Takes over the caller's rights as they are now. Returns false if it may no longer subscribe.
    pub(super) fn renew_access(&mut self, state: &StateInner) -> bool {
        renew_principal(state, &mut self.principal) && self.is_visible(state)
    }

    fn is_visible(&self, state: &StateInner) -> bool {
        let view = state.components.gateway.view_for(&self.principal, CallerType::Direct);
        let found = source_items::find_event(&self.endpoint, &view, &self.events.name);
        found.is_some_and(|(item, _)| item.source.source.as_str() == self.events.source)
    }

    /// The modes in which the source delivers events to this caller.
    pub(super) fn usable_delivery(&self, state: &StateInner) -> EventDelivery {
        let view = state.components.gateway.view_for(&self.principal, CallerType::Direct);
        usable_delivery(self.events.delivery, &view, &self.events.source)
    }
}

/// The modes of an event type whose methods the caller may use.
pub(super) fn usable_delivery(
    delivery: EventDelivery,
    view: &gateway::CatalogView,
    source: &str,
) -> EventDelivery {
    let may = |method| view.find_method(source, method).is_some();
    EventDelivery {
        has_poll: delivery.has_poll && may(EVENT_METHOD),
        has_push: delivery.has_push && may(STREAM_METHOD),
    }
}
