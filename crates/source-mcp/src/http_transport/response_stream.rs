//! Event stream of one request, until its answer, resumed after disconnects as the server allows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::mcp::sse::{self, EventTooLarge};
use ::mcp::{ProtocolEra, RequestId, RpcError, RpcMessage, RpcRequest, RpcResponse};
use bytes::Bytes;
use egress::EgressBody;
use futures_util::FutureExt as _;
use tokio::time::{sleep, timeout};
use tool::{Json, JsonLimits};

use super::response_body;
use super::sse_state::SseState;
use crate::connection::{DeliveryError, McpConnection};
use crate::delivery_errors::HttpRequestError;
use crate::in_flight_request::{InvalidResult, RequestEvent, unsupported_method_error};
use crate::input_requests::is_forwarded;
use crate::notifications::RoutedNotification;
use crate::stray_output::StrayOutputVerdict;

/// Minimum and maximum delay before a stream is resumed, when the server asks for one.
const RESUME_DELAY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));
/// Maximum times that a stream is resumed.
const MAX_RESUMES: u32 = 6;
/// Maximum requests of the server on one stream.
const MAX_INPUT_REQUESTS: usize = 1_000;
/// Time limit for the end of a stream after the answer: for its caller, and in total.
const DRAIN_TIMEOUTS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Event stream of one response.
#[derive(Debug)]
pub(super) struct ResponseStream {
    body: Option<EgressBody>,
    decoder: sse::SseDecoder,
    max_message_bytes: usize,
    state: SseState,
    resume_count: u32,
    request_count: usize,
    /// Request of the server that Toolkeep itself must answer, until it has.
    unanswered_request: Option<RpcRequest>,
    /// The last event, stored while the rest is read.
    final_event: Option<RequestEvent>,
}

impl ResponseStream {
    pub(super) fn new(body: EgressBody, max_bytes: usize) -> Self {
        Self {
            body: Some(body),
            decoder: sse::SseDecoder::new(max_bytes),
            max_message_bytes: max_bytes,
            state: SseState::default(),
            resume_count: 0,
            request_count: 0,
            unanswered_request: None,
            final_event: None,
        }
    }

    /// Returns the next event of the stream.
    pub(super) async fn next_event(
        &mut self,
        connection: &Arc<McpConnection>,
        id: i64,
    ) -> Result<RequestEvent, DeliveryError> {
        loop {
            self.answer_pending_request(connection).await?;
            if let Some(event) = self.final_event.take() {
                return Ok(event);
            }
            while let Some(event) = self.decoder.next_event() {
                if let Some(event) = self.handle_event(event, connection, id).await? {
                    if !matches!(
                        event,
                        RequestEvent::Response(_) | RequestEvent::InvalidResponse(_)
                    ) {
                        return Ok(event);
                    }
                    self.final_event = Some(event);
                    self.drain_to_end(connection).await;
                    return self.final_event.take().ok_or(DeliveryError::ConnectionLost);
                }
            }
            let part = match &mut self.body {
                Some(body) => body.next_chunk().await.ok().flatten(),
                None => None,
            };
            match part {
                Some(part) => self.decoder.feed_bytes(&part).map_err(|EventTooLarge| {
                    DeliveryError::Http(HttpRequestError::too_large(self.max_message_bytes))
                })?,
                None => self.resume_stream(connection).await?,
            }
        }
    }

    /// Converts a stream event into a request event, if its owner needs it.
    async fn handle_event(
        &mut self,
        event: sse::SseEvent,
        link: &Arc<McpConnection>,
        id: i64,
    ) -> Result<Option<RequestEvent>, DeliveryError> {
        let Some(data) = self.state.accept_event(event) else { return Ok(None) };
        let limits = JsonLimits { max_bytes: self.max_message_bytes, ..JsonLimits::DOCUMENT };
        let data = Bytes::from(data);
        match RpcMessage::parse(data.clone(), limits) {
            Ok(RpcMessage::Response(answer)) => Ok(response_event(answer, id)),
            Ok(RpcMessage::Request(question)) => self.handle_request(question, link).await,
            Ok(RpcMessage::Notification(notice)) => {
                Ok(match link.context.notifications.route_notification(notice) {
                    RoutedNotification::Progress(of, progress) if of == id => {
                        Some(RequestEvent::Progress(progress))
                    }
                    RoutedNotification::ForCall(notice)
                    | RoutedNotification::ForSubscription(_, notice) => {
                        Some(RequestEvent::Notification(notice))
                    }
                    RoutedNotification::RequestCancelled(of) => {
                        Some(RequestEvent::InputRequestCancelled(of))
                    }
                    RoutedNotification::Progress(..) | RoutedNotification::Consumed => None,
                })
            }
            Err(fault) => match InvalidResult::from_response(&data, &fault) {
                Some((of, spoiled)) if of == id => Ok(Some(RequestEvent::InvalidResponse(spoiled))),
                _ => match link.context.stray_output.record_line(&data, &fault.to_string()) {
                    StrayOutputVerdict::Tolerate => Ok(None),
                    StrayOutputVerdict::Abort(why) => {
                        Err(DeliveryError::Http(HttpRequestError::malformed(why)))
                    }
                },
            },
        }
    }

    async fn handle_request(
        &mut self,
        question: RpcRequest,
        link: &McpConnection,
    ) -> Result<Option<RequestEvent>, DeliveryError> {
        self.request_count += 1;
        if self.request_count > MAX_INPUT_REQUESTS {
            let why = format!("sent more than {MAX_INPUT_REQUESTS} input requests on one stream");
            return Err(DeliveryError::Http(HttpRequestError::malformed(why)));
        }
        if is_forwarded(&question.method) {
            return Ok(Some(RequestEvent::InputRequested(question)));
        }
        self.unanswered_request = Some(question);
        self.answer_pending_request(link).await?;
        Ok(None)
    }

    /// Answers the stored request. It stays stored until then, so that a dropped future loses
    /// nothing.
    async fn answer_pending_request(&mut self, link: &McpConnection) -> Result<(), DeliveryError> {
        if let Some(question) = &self.unanswered_request {
            answer_request(question, link).await?;
            self.unanswered_request = None;
        }
        Ok(())
    }

    /// Resumes a stream that broke off, if the server gave its events ids.
    async fn resume_stream(&mut self, link: &McpConnection) -> Result<(), DeliveryError> {
        self.body = None;
        let endpoint = link.http_transport().ok_or(DeliveryError::ConnectionLost)?;
        loop {
            let last = self.state.last_event_id.clone();
            let last = last.filter(|_| link.era() == ProtocolEra::Handshake);
            let Some(last) = last.filter(|_| self.resume_count < MAX_RESUMES) else {
                return Err(DeliveryError::ConnectionLost);
            };
            let doubled = RESUME_DELAY.0.saturating_mul(1 << self.resume_count);
            self.resume_count += 1;
            let wanted = self.state.retry_delay;
            sleep(wanted.map_or(doubled, |delay| delay.clamp(RESUME_DELAY.0, RESUME_DELAY.1)))
                .await;
            // A connection failure is not final; a refusal is.
            let Ok(response) = endpoint.open_stream(&endpoint.current_session(), Some(&last)).await
            else {
                continue;
            };
            if !response.status().is_success()
                || response_body::content_kind(&response) != response_body::ContentKind::EventStream
            {
                response_body::drain_body(response.into_body()).await;
                return Err(DeliveryError::ConnectionLost);
            }
            self.decoder = sse::SseDecoder::new(self.max_message_bytes);
            self.body = Some(response.into_body());
            return Ok(());
        }
    }

    /// Reads to the end, so that the connection can be reused. Mostly the end has already arrived.
    async fn drain_to_end(&mut self, link: &McpConnection) {
        let Some(mut body) = self.body.take() else { return };
        let Some(endpoint) = link.http_transport() else { return };
        let mut to_end =
            Box::pin(async move { while let Ok(Some(_)) = body.next_chunk().await {} });
        if to_end.as_mut().now_or_never().is_some() {
            return;
        }
        if !endpoint.leaves_streams_open.load(Ordering::Relaxed) {
            if timeout(DRAIN_TIMEOUTS.0, to_end.as_mut()).await.is_ok() {
                return;
            }
            endpoint.mark_leaves_streams_open();
        }
        drop(
            link.context.tasks.spawn(async move { drop(timeout(DRAIN_TIMEOUTS.1, to_end).await) }),
        );
    }
}

fn response_event(answer: RpcResponse, id: i64) -> Option<RequestEvent> {
    let RpcResponse { id: of, result } = answer;
    // An error without an id can only belong to this request.
    let is_own = match &of {
        Some(of) => of.as_number() == Some(id),
        None => result.is_err(),
    };
    is_own.then_some(RequestEvent::Response(result))
}

/// Answers a server's request that Toolkeep does not forward to a client.
pub(super) async fn answer_request(
    request: &RpcRequest,
    connection: &McpConnection,
) -> Result<(), DeliveryError> {
    let answer: Result<Json, RpcError> = match request.method.as_str() {
        "ping" => Ok(Json::empty_object()),
        method => Err(unsupported_method_error(method)),
    };
    let id: &RequestId = &request.id;
    connection.respond_to_server(id, &answer).await
}
