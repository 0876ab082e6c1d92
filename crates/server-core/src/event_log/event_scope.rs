//! The thing that an event is about. The function that the lists of such things call decides who sees
//! the event, when it is delivered.

use gateway::ApprovalScope;
use identity::Principal;
use tool::{Caller, CallerType, SourceName};

use super::ServerEvent;
use crate::pin_review::may_read_pins;
use crate::server_state::StateInner;
use crate::source_list::is_source_visible;

/// The thing that an event is about.
#[derive(Debug, Clone)]
pub enum EventScope {
    /// A pending call.
    Approval(Box<ApprovalScope>),
    /// A pinned definition of this source, or pins as a whole.
    Pin(Option<SourceName>),
    /// A source.
    Source(SourceName),
    /// A program of this caller.
    Program(Box<Caller>),
}

/// Whether a principal, as it is now, sees the thing that an event is about.
pub fn is_event_visible(state: &StateInner, principal: &Principal, event: &ServerEvent) -> bool {
    match &event.scope {
        EventScope::Approval(scope) => state.components.gateway.sees_approval(principal, scope),
        EventScope::Pin(source) => {
            let sees = |source| sees_source(state, principal, source);
            may_read_pins(principal) && source.as_ref().is_none_or(sees)
        }
        EventScope::Source(source) => sees_source(state, principal, source),
        EventScope::Program(owner) => owner.has_credential_of(principal.caller()),
    }
}

/// Whether a list of sources has this one for the principal. A toolset leaves out the others.
fn sees_source(state: &StateInner, principal: &Principal, source: &SourceName) -> bool {
    if !is_source_visible(principal, source.as_str()) {
        return false;
    }
    let view = state.components.gateway.view_for(principal, CallerType::Direct);
    let catalog = view.full_catalog();
    !catalog.is_selection() || catalog.find_source(source.as_str()).is_some()
}
