//! The stream of the events of a source: a stream of the source behind a stream of the client.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp::events;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tool::Json;

use super::client_stream::ClientStream;
use super::event_errors::{access_revoked, failure_error, unsupported_mode};
use super::event_params::{StartParams, parse_event_name};
use super::event_stream::HEARTBEAT_INTERVAL;
use super::source_feed::{FeedItem, SourceFeed};
use super::source_page::SourceEvent;
use super::source_subscription::{STREAM_METHOD, SourceSubscription};
use crate::McpServerState;
use crate::request_context::RequestContext;
use crate::request_error::RequestError;
use crate::response_body::{self, EventStream, McpResponse};

/// Time for a source to begin its stream. Without a message the stream counts as begun: an error would
/// have arrived.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Handles `events/stream` for an event type of a source.
pub(super) async fn open_source_stream(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    let (caller, state) = (request.caller, request.caller.state);
    let permit =
        state.streams.open_stream(caller.principal).map_err(RequestError::too_many_requests)?;
    let subscription = SourceSubscription::parse(request, &parse_event_name(request)?)?;
    if !subscription.usable_delivery(state).has_push {
        return Err(unsupported_mode("push"));
    }
    let key = &state.mcp_components.event_cursors;
    let position = subscription.open_position(key, &StartParams::parse(request)?);
    let mut feed = SourceFeed::by_stream(state, subscription, position);
    let first = timeout(BEGIN_TIMEOUT, feed.next_item()).await.ok();
    if let Some(FeedItem::Refused(failure)) = &first {
        return Ok(request.result_encoder().encode_failure(failure, true).into_response());
    }
    let (client, final_event) = ClientStream::begin(request);
    let sink = Arc::clone(&client.sink);
    let stream = SourcePushStream { state: state.clone(), feed, client };
    let work = stream.run(first, final_event);
    let task = AbortOnDropHandle::new(state.mcp_components.background_tasks.spawn(work));
    Ok(response_body::event_stream_response(EventStream::new(sink, Some(task), permit)))
}

/// One open stream.
struct SourcePushStream {
    state: McpServerState,
    feed: SourceFeed,
    client: ClientStream,
}

impl SourcePushStream {
    /// Sends events until the server stops, the source ends the subscription or the caller's access ends;
    /// returns the final response.
    async fn run(mut self, first: Option<FeedItem>, final_event: Bytes) -> Option<Bytes> {
        let mut next = first;
        if !matches!(next, Some(FeedItem::Active { .. })) {
            let is_truncated = self.feed.take_truncation();
            self.send_active(is_truncated).await;
            self.feed.mark_begun();
        }
        let closed = self.state.streams_closed.clone();
        loop {
            let item = tokio::select! {
                biased;
                () = closed.cancelled() => return Some(final_event),
                item = next_or(next.take(), &mut self.feed) => Some(item),
                () = sleep(HEARTBEAT_INTERVAL) => None,
            };
            if !self.feed.renew_access() {
                self.send_error(events::TERMINATED_NOTIFICATION, &access_revoked()).await;
                return Some(final_event);
            }
            match item {
                None => {
                    let params = Json::object_from([("cursor", &self.cursor())]);
                    self.client.try_send(events::HEARTBEAT_NOTIFICATION, &params);
                }
                Some(FeedItem::Active { is_truncated }) => self.send_active(is_truncated).await,
                Some(FeedItem::Event(event)) => self.send_event(&event).await,
                Some(FeedItem::Error(error)) => {
                    self.send_error(events::ERROR_NOTIFICATION, &error).await;
                }
                Some(FeedItem::Terminated(error)) => {
                    self.send_error(events::TERMINATED_NOTIFICATION, &error).await;
                    return Some(final_event);
                }
                Some(FeedItem::Refused(failure)) => {
                    let error = failure_error(&failure);
                    self.send_error(events::TERMINATED_NOTIFICATION, &error).await;
                    return Some(final_event);
                }
            }
        }
    }

    /// Sends one event. A client that reads slowly delays it, and the source may overtake the feed.
    async fn send_event(&self, event: &SourceEvent) {
        let subscription = &self.feed.subscription;
        let target = subscription.events.call_target(STREAM_METHOD);
        self.state.components.gateway.mark_delivery(&subscription.principal, &target);
        let params = subscription.events.write_event(event, Some(self.cursor()));
        self.client.send(events::EVENT_NOTIFICATION, &params).await;
    }

    async fn send_active(&self, is_truncated: bool) {
        let truncated = Json::encode(&is_truncated);
        let params = Json::object_from([("cursor", &self.cursor()), ("truncated", &truncated)]);
        self.client.send(events::ACTIVE_NOTIFICATION, &params).await;
    }

    async fn send_error(&self, method: &str, error: &Json) {
        self.client.send(method, &Json::object_from([("error", error)])).await;
    }

    fn cursor(&self) -> Json {
        let key = &self.state.mcp_components.event_cursors;
        self.feed.subscription.seal_cursor(key, self.feed.cursor())
    }
}

/// Returns the item, or the next one of the feed.
async fn next_or(item: Option<FeedItem>, feed: &mut SourceFeed) -> FeedItem {
    match item {
        Some(item) => item,
        None => feed.next_item().await,
    }
}
