//! Events of the approvals page: the list of waiting calls has changed.
//!
//! An event contains no data. The script loads the page again, which is the only place that shows
//! calls.

use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use identity::Principal;
use tool::CallId;

use crate::ConsoleState;
use crate::approval_pages::PAGE_SIZE;
use crate::error_page::PageError;
use crate::live_stream::{LiveView, empty_event, open_stream};
use crate::session::ConsoleSession;

/// The first page of the list, as it was last seen.
struct ApprovalView {
    seen: Option<Vec<CallId>>,
}

/// Opens the stream of waiting calls.
pub(crate) async fn stream_events(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Result<Response, PageError> {
    let seen = list_ids(&state, &session.principal).await;
    open_stream(state, session, ApprovalView { seen })
}

impl LiveView for ApprovalView {
    async fn next_event(&mut self, state: &ConsoleState, principal: &Principal) -> Option<Event> {
        let ids = list_ids(state, principal).await;
        if ids.is_none() || ids == self.seen {
            return None;
        }
        self.seen = ids;
        Some(empty_event("changed"))
    }
}

/// Returns the ids of the first page; `None` if the store does not respond.
async fn list_ids(state: &ConsoleState, principal: &Principal) -> Option<Vec<CallId>> {
    let gateway = &state.server.components.gateway;
    let page = gateway.list_approvals(principal, true, (None, PAGE_SIZE)).await.ok()?;
    Some(page.approvals.iter().map(|approval| approval.id).collect())
}
