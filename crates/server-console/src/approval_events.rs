//! Server-sent events of the approvals page: the list of waiting calls has changed, or the session
//! has ended.
//!
//! An event contains no data. The script loads the page again, which is the only place that shows
//! calls.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use identity::Principal;
use server_core::error::ApiError;
use server_core::stream_limits::OpenStream;
use tool::{CallId, ErrorCode};

use crate::ConsoleState;
use crate::approval_pages::PAGE_SIZE;
use crate::error_page::PageError;
use crate::session::ConsoleSession;

/// Time between two looks at the list, and the most that a revoked key keeps its stream.
const INTERVAL: Duration = Duration::from_millis(500);

/// A stream that watches the first page of the list.
struct ApprovalStream {
    state: ConsoleState,
    session: ConsoleSession,
    seen: Option<Vec<CallId>>,
    has_ended: bool,
    _open: OpenStream,
}

/// Opens the stream for a signed-in user.
pub(crate) async fn stream_events(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Result<Response, PageError> {
    let open = state.server.streams.open_stream(&session.principal);
    let open = open.map_err(|message| ApiError::new(ErrorCode::Busy, message))?;
    let seen = list_ids(&state, &session.principal).await;
    let watched = ApprovalStream { state, session, seen, has_ended: false, _open: open };
    let events = stream::unfold(watched, |mut watched| async move {
        let event = watched.next_event().await?;
        Some((Ok::<_, Infallible>(event), watched))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

impl ApprovalStream {
    /// Waits for the next event; `None` at the end.
    async fn next_event(&mut self) -> Option<Event> {
        // A browser drops an event with empty data.
        let event = |name: &str| Event::default().event(name).data("now");
        while !self.has_ended {
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = self.state.server.streams_closed.cancelled() => return None,
            }
            // Watching is no use of the session: it ends as if the page were closed.
            let Some(principal) = self.session.current_principal(&self.state) else {
                self.has_ended = true;
                return Some(event("ended"));
            };
            let ids = list_ids(&self.state, &principal).await;
            if ids.is_some() && ids != self.seen {
                self.seen = ids;
                return Some(event("changed"));
            }
        }
        None
    }
}

/// Returns the ids of the first page; `None` if the store does not respond.
async fn list_ids(state: &ConsoleState, principal: &Principal) -> Option<Vec<CallId>> {
    let gateway = &state.server.components.gateway;
    let page = gateway.list_approvals(principal, true, (None, PAGE_SIZE)).await.ok()?;
    Some(page.approvals.iter().map(|approval| approval.id).collect())
}
