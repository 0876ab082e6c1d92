//! The handler of `events/stream`: a stream of the events of one subscription.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp::events;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use tool::Json;

use super::client_stream::ClientStream;
use super::event_errors::access_revoked;
use super::event_reader::{EventReader, EventSubscription, ReadPage, occurrence};
use super::source_event_stream::open_source_stream;
use super::{SubscribedType, subscribed_type};
use crate::McpServerState;
use crate::request_context::RequestContext;
use crate::request_error::RequestError;
use crate::response_body::{self, EventStream, McpResponse};

/// Interval of heartbeats, which the extension wants at least every 30 s.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(25);
/// Maximum number of events that are read at once.
const PAGE_EVENTS: usize = 32;

/// Handles the method `events/stream`.
pub(super) async fn open_event_stream(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    match subscribed_type(request)? {
        SubscribedType::Own => open_own_stream(request),
        SubscribedType::Source => Box::pin(open_source_stream(request)).await,
    }
}

fn open_own_stream(request: &RequestContext<'_>) -> Result<McpResponse, RequestError> {
    let (caller, state) = (request.caller, request.caller.state);
    let permit =
        state.streams.open_stream(caller.principal).map_err(RequestError::too_many_requests)?;
    let subscription = EventSubscription::parse(request)?;
    let mut reader = EventReader::start(request, subscription)?;
    let (client, final_event) = ClientStream::begin(request);
    let sink = Arc::clone(&client.sink);
    let first_page = reader.next_page(state, PAGE_EVENTS);
    let stream = PushStream { state: state.clone(), reader, client };
    let work = stream.run(first_page, final_event);
    let task = AbortOnDropHandle::new(state.mcp_components.background_tasks.spawn(work));
    Ok(response_body::event_stream_response(EventStream::new(sink, Some(task), permit)))
}

/// One open stream.
struct PushStream {
    state: McpServerState,
    reader: EventReader,
    client: ClientStream,
}

impl PushStream {
    /// Sends events until the server stops or the caller's access ends; returns the final response.
    async fn run(mut self, first_page: ReadPage, final_event: Bytes) -> Option<Bytes> {
        let mut head = self.state.components.events.subscribe_head();
        self.send_active(&first_page).await;
        let mut page = first_page;
        loop {
            self.send_events(&page.events).await;
            if !page.has_more && !self.wait_for_news(&mut head).await {
                return Some(final_event);
            }
            if self.reader.renew_principal(&self.state).is_none() {
                let params = Json::object_from([("error", &access_revoked())]);
                self.client.send(events::TERMINATED_NOTIFICATION, &params).await;
                return Some(final_event);
            }
            page = self.reader.next_page(&self.state, PAGE_EVENTS);
            if page.is_truncated {
                self.send_active(&page).await;
            }
        }
    }

    /// Waits for new events and sends heartbeats meanwhile. Returns false if the server stops.
    async fn wait_for_news(&self, head: &mut watch::Receiver<u64>) -> bool {
        loop {
            if *head.borrow_and_update() > self.reader.position {
                return true;
            }
            tokio::select! {
                () = self.state.streams_closed.cancelled() => return false,
                changed = head.changed() => if changed.is_err() { return false },
                () = sleep(HEARTBEAT_INTERVAL) => {
                    let cursor = self.cursor_at(self.reader.position);
                    let params = Json::object_from([("cursor", &cursor)]);
                    self.client.try_send(events::HEARTBEAT_NOTIFICATION, &params);
                    // The caller's access is checked with each heartbeat.
                    return true;
                }
            }
        }
    }

    /// Sends events in order. A client that reads slowly delays them; the log may overtake it.
    async fn send_events(&self, page: &[Arc<server_core::event_log::ServerEvent>]) {
        for event in page {
            let params = occurrence(event, Some(self.cursor_at(event.position)));
            self.client.send(events::EVENT_NOTIFICATION, &params).await;
        }
    }

    /// Sends the position before the first event of a page.
    async fn send_active(&self, page: &ReadPage) {
        let first = page.events.first().map(|event| event.position.saturating_sub(1));
        let cursor = self.cursor_at(first.unwrap_or(self.reader.position));
        let truncated = Json::encode(&page.is_truncated);
        let params = Json::object_from([("cursor", &cursor), ("truncated", &truncated)]);
        self.client.send(events::ACTIVE_NOTIFICATION, &params).await;
    }

    fn cursor_at(&self, position: u64) -> Json {
        let epoch = self.state.components.events.epoch();
        self.reader.cursor_at(&self.state.mcp_components.event_cursors, epoch, position)
    }
}
