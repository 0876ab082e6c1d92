//! Server-sent events of a page: what is new since the last look, or that the session has ended.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use identity::Principal;
use server_core::error::ApiError;
use server_core::stream_limits::OpenStream;
use tool::ErrorCode;

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::session::ConsoleSession;

/// Time between two looks, and the most that a revoked key keeps its stream.
const INTERVAL: Duration = Duration::from_millis(500);

/// A view that a stream watches. Each look costs a bounded amount of work, whatever happened since the
/// last one.
pub(crate) trait LiveView: Send + 'static {
    /// Looks again, with the rights that the principal has now; `None` if nothing is new.
    fn next_event(
        &mut self,
        state: &ConsoleState,
        principal: &Principal,
    ) -> impl Future<Output = Option<Event>> + Send;
}

struct LiveStream<V> {
    state: ConsoleState,
    session: ConsoleSession,
    view: V,
    has_ended: bool,
    _open: OpenStream,
}

/// Opens a stream for a signed-in user. It counts as a stream of the session's key.
pub(crate) fn open_stream<V: LiveView>(
    state: ConsoleState,
    session: ConsoleSession,
    view: V,
) -> Result<Response, PageError> {
    let open = state.server.streams.open_stream(&session.principal);
    let open = open.map_err(|message| ApiError::new(ErrorCode::Busy, message))?;
    let watched = LiveStream { state, session, view, has_ended: false, _open: open };
    let events = stream::unfold(watched, |mut watched| async move {
        let event = watched.next_event().await?;
        Some((Ok::<_, Infallible>(event), watched))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

impl<V: LiveView> LiveStream<V> {
    /// Waits for the next event; `None` at the end.
    async fn next_event(&mut self) -> Option<Event> {
        while !self.has_ended {
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = self.state.server.streams_closed.cancelled() => return None,
            }
            // Watching is no use of the session: it ends as if the page were closed.
            let Some(principal) = self.session.current_principal(&self.state) else {
                self.has_ended = true;
                return Some(empty_event("ended"));
            };
            if let Some(event) = self.view.next_event(&self.state, &principal).await {
                return Some(event);
            }
        }
        None
    }
}

/// Creates an event that says nothing but its name. A browser drops an event with empty data.
pub(crate) fn empty_event(name: &str) -> Event {
    Event::default().event(name).data("now")
}
