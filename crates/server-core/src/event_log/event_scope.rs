//! The thing that an event is about. The function that the lists of such things call decides who sees
//! the event, when it is delivered.

use gateway::ApprovalScope;
use identity::Principal;
use tool::{Caller, SourceName};

use super::ServerEvent;
use crate::pin_review::may_read_pins;
use crate::server_state::StateInner;
use crate::source_list::is_source_visible;

/// The thing that an event is about.
#[derive(Debug, Clone)]
pub enum EventScope {
    /// A pending call.
    Approval(Box<ApprovalScope>),
    /// A pinned definition.
    Pin,
    /// A source.
    Source(SourceName),
    /// A program of this caller.
    Program(Box<Caller>),
}

/// Whether a principal, as it is now, sees the thing that an event is about.
pub fn is_event_visible(state: &StateInner, principal: &Principal, event: &ServerEvent) -> bool {
    match &event.scope {
        EventScope::Approval(scope) => state.components.gateway.sees_approval(principal, scope),
        EventScope::Pin => may_read_pins(principal),
        EventScope::Source(source) => is_source_visible(principal, source.as_str()),
        EventScope::Program(owner) => owner.has_credential_of(principal.caller()),
    }
}
