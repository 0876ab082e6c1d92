//! Request in flight: its answer, progress, log lines and the requests that the server sends for
//! it.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ::mcp::events::STREAM_METHOD;
use ::mcp::headers::ArgumentHeaders;
use ::mcp::{
    MessageError, ProtocolEra, RequestId, RpcError, RpcNotification, RpcRequest, error_codes,
};
use bytes::Bytes;
use http::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tool::{BoxFuture, Caller, Json};

use super::connection::{DeliveryError, McpConnection, Transport};
use super::http_transport::PostResponse;
use super::outgoing_request::OutgoingRequest;
use super::pipe_transport::RequestRole;

/// Time limit for sending a cancellation to the server.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Event of a request in flight.
#[derive(Debug)]
pub(super) enum RequestEvent {
    /// Progress notification, as received.
    Progress(Json),
    /// Log line, or the acknowledgement of a subscription.
    Notification(RpcNotification),
    /// The server sends a request of its own before it answers.
    InputRequested(RpcRequest),
    /// The server cancels this request of its own.
    InputRequestCancelled(RequestId),
    /// The request has its answer.
    Response(Result<Json, RpcError>),
    /// The request has a result that fails validation. One invalid definition must not lose a whole
    /// list, so lists parse it item by item.
    InvalidResponse(InvalidResult),
}

/// Result that is JSON but fails validation.
#[derive(Debug)]
pub(super) struct InvalidResult {
    pub(super) raw_result: Bytes,
    /// Reason why validation failed.
    pub(super) reason: String,
}

impl InvalidResult {
    /// Parses a response that failed validation. Returns it with its id if that is a number.
    pub(super) fn from_response(text: &Bytes, error: &MessageError) -> Option<(i64, Self)> {
        #[derive(Deserialize)]
        struct LenientResponse<'a> {
            id: LenientId,
            #[serde(borrow)]
            result: &'a RawValue,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum LenientId {
            Number(i64),
            Text(String),
        }
        let lenient: LenientResponse<'_> = serde_json::from_slice(text).ok()?;
        let id = match lenient.id {
            LenientId::Number(id) => id,
            LenientId::Text(text) => text.parse().ok()?,
        };
        let result = text.slice_ref(lenient.result.get().as_bytes());
        Some((id, Self { raw_result: result, reason: error.to_string() }))
    }

    /// Converts the result to an error.
    pub(super) fn into_error(self) -> RpcError {
        RpcError::new(0, format!("an invalid result: {}", self.reason))
    }
}

/// Answer of the server to a request.
#[derive(Debug)]
pub(super) enum RpcOutcome {
    Result(Json),
    /// Result that fails validation; a list uses its valid items.
    InvalidResult(InvalidResult),
    Error(RpcError),
}

impl RpcOutcome {
    /// Returns the result. An invalid one becomes an error.
    pub(super) fn into_result(self) -> Result<Json, RpcError> {
        match self {
            Self::Result(result) => Ok(result),
            Self::InvalidResult(invalid) => Err(invalid.into_error()),
            Self::Error(error) => Err(error),
        }
    }
}

/// Origin of a request.
#[derive(Debug)]
pub(super) enum RequestOrigin<'a> {
    /// A caller's call: it may receive requests of the server and log lines.
    Call(CallRequestContext<'a>),
    /// A request of Toolkeep itself.
    Internal,
    /// The negotiation, first on each connection.
    Negotiation,
}

/// Context of a request that is sent for a call.
#[derive(Debug)]
pub(super) struct CallRequestContext<'a> {
    pub(super) permit: OwnedSemaphorePermit,
    /// Arguments that are repeated in headers.
    pub(super) argument_headers: Option<(&'a ArgumentHeaders, &'a Value)>,
    pub(super) caller: &'a Caller,
    /// Task whose result the request waits for.
    pub(super) task_id: Option<&'a str>,
}

/// Request in flight. If it is dropped before its answer, it is cancelled at the server.
#[derive(Debug)]
pub(super) struct InFlightRequest {
    connection: Arc<McpConnection>,
    id: i64,
    response: ResponseState,
    /// Whether the server must be notified when the request is dropped.
    needs_cancel: bool,
    call_permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
enum ResponseState {
    Unsent,
    Pipe(mpsc::Receiver<RequestEvent>),
    AwaitingHead(ResponseFuture),
    Http(Box<PostResponse>),
}

/// HTTP request whose response head has not arrived.
struct ResponseFuture(BoxFuture<'static, Result<PostResponse, DeliveryError>>);

impl fmt::Debug for ResponseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sending")
    }
}

impl InFlightRequest {
    pub(super) fn new(connection: Arc<McpConnection>, id: i64) -> Self {
        Self {
            connection,
            id,
            response: ResponseState::Unsent,
            needs_cancel: false,
            call_permit: None,
        }
    }

    /// Returns the connection that the request uses.
    pub(super) fn connection(&self) -> &Arc<McpConnection> {
        &self.connection
    }

    /// Returns the id of the session that the response opens.
    pub(super) fn session_id(&self) -> Option<HeaderValue> {
        match &self.response {
            ResponseState::Http(answer) => answer.session_id.clone(),
            ResponseState::Unsent | ResponseState::Pipe(_) | ResponseState::AwaitingHead(_) => None,
        }
    }

    /// Sends the request over the transport of its connection.
    pub(super) async fn send_request(
        &mut self,
        request: &OutgoingRequest<'_>,
        kind: RequestOrigin<'_>,
    ) -> Result<(), DeliveryError> {
        if self.connection.is_closed() {
            return Err(DeliveryError::ConnectionClosed);
        }
        let is_negotiation = matches!(kind, RequestOrigin::Negotiation);
        let (mut mirror, mut role) = (None, RequestRole::Internal);
        if let RequestOrigin::Call(calling) = kind {
            // Before any event of the call can arrive.
            self.connection.context.callers.add_caller(calling.caller);
            self.call_permit = Some(calling.permit);
            mirror = calling.argument_headers;
            role = RequestRole::Call(calling.task_id.map(Arc::from));
        }
        let link = Arc::clone(&self.connection);
        let text = request.encode_message(self.id, link.era());
        // MCP: `initialize` is never cancelled.
        self.needs_cancel = !is_negotiation;
        match &link.transport {
            Transport::Pipe(pipe) => {
                let events = match request.method {
                    STREAM_METHOD => pipe.register_stream(self.id, role),
                    _ => pipe.register_request(self.id, role),
                };
                self.response = ResponseState::Pipe(events.ok_or(DeliveryError::ConnectionClosed)?);
                pipe.send_message(text).await
            }
            Transport::Http(_) => {
                // The negotiation may reach a server of the other era, which needs the headers too.
                let headers = if link.era() == ProtocolEra::Stateless || is_negotiation {
                    super::request_headers::build_request_headers(request, mirror)
                } else {
                    Vec::new()
                };
                let is_call = matches!(role, RequestRole::Call(_));
                if let (RequestRole::Call(task), ProtocolEra::Handshake) = (role, link.era()) {
                    link.context.close_signal.session_events.add_call(self.id, task);
                }
                let (connection, id) = (Arc::clone(&link), self.id);
                self.response = ResponseState::AwaitingHead(ResponseFuture(Box::pin(async move {
                    let endpoint =
                        connection.http_transport().ok_or(DeliveryError::ConnectionClosed)?;
                    endpoint.post_request(&connection, id, text, headers, is_negotiation).await
                })));
                // Requests of Toolkeep only need the answer. A call may receive requests of the
                // server before its response begins.
                if is_call { Ok(()) } else { self.poll_response_head().await.map(drop) }
            }
        }
    }

    /// Waits for the response head. An event of the server stream may arrive before it.
    async fn poll_response_head(&mut self) -> Result<Option<RequestEvent>, DeliveryError> {
        let ResponseState::AwaitingHead(sending) = &mut self.response else { return Ok(None) };
        let (beside, id) = (&self.connection.context.close_signal.session_events, self.id);
        let polled = poll_fn(|cx| match sending.0.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            Poll::Pending => beside.poll_event(id, cx).map(Err),
        });
        let answer = match polled.await {
            Ok(answer) => answer,
            Err(Some(event)) => return Ok(Some(event)),
            Err(None) => Err(DeliveryError::ConnectionLost),
        };
        self.response =
            ResponseState::Http(Box::new(answer.inspect_err(|_| self.needs_cancel = false)?));
        Ok(None)
    }

    /// Returns the next event, in order, the answer last. Cancel-safe.
    pub(super) async fn next_event(&mut self) -> Result<RequestEvent, DeliveryError> {
        if let Some(event) = self.poll_response_head().await? {
            return Ok(event);
        }
        let event = match &mut self.response {
            ResponseState::Unsent | ResponseState::AwaitingHead(_) => {
                Err(DeliveryError::ConnectionClosed)
            }
            ResponseState::Pipe(events) => events.recv().await.ok_or(DeliveryError::ConnectionLost),
            ResponseState::Http(answer) => {
                let (beside, id) = (&self.connection.context.close_signal.session_events, self.id);
                let mut next = pin!(answer.next_event(&self.connection, id));
                poll_fn(|cx| match next.as_mut().poll(cx) {
                    Poll::Ready(event) => Poll::Ready(event),
                    Poll::Pending => beside
                        .poll_event(id, cx)
                        .map(|event| event.ok_or(DeliveryError::ConnectionLost)),
                })
                .await
            }
        };
        // The reader of a pipe gives up a stream that is read too slowly, and the server goes on with it.
        let is_given_up =
            matches!(self.response, ResponseState::Pipe(_)) && !self.connection.is_closed();
        let has_ended = match &event {
            Ok(event) => {
                matches!(event, RequestEvent::Response(_) | RequestEvent::InvalidResponse(_))
            }
            Err(_) => !is_given_up,
        };
        if has_ended {
            self.needs_cancel = false;
            self.call_permit = None;
        }
        event
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        match &self.connection.transport {
            Transport::Pipe(pipe) => pipe.unregister_request(self.id),
            Transport::Http(_) => {
                self.connection.context.close_signal.session_events.remove_call(self.id);
            }
        }
        // A stateless server sees its stream closed, which cancels the request.
        let seen = self.connection.requires_request_headers();
        let running = tokio::runtime::Handle::try_current().is_ok();
        if !self.needs_cancel || seen || self.connection.is_closed() || !running {
            return;
        }
        let params = Json::encode(&serde_json::json!({
            "requestId": self.id, "reason": "the caller cancelled the call"}));
        let link = Arc::clone(&self.connection);
        drop(self.connection.context.tasks.spawn(async move {
            let told = link.notify_server("notifications/cancelled", &params);
            let told = tokio::time::timeout(CANCEL_TIMEOUT, told).await;
            tracing::debug!(told = told.is_ok(), "cancelled a request at the server");
        }));
    }
}

/// Error answer to a server's request that belongs to no running call.
pub(super) fn unattributed_request_error() -> RpcError {
    let why = "the request cannot be attributed: it names no running call, and this connection \
        does not serve exactly one call";
    RpcError::new(error_codes::INTERNAL_ERROR, why)
}

/// Error answer to a server's request that Toolkeep does not forward.
pub(super) fn unsupported_method_error(method: &str) -> RpcError {
    let method = tool::display_text::escape_and_truncate(method, 60);
    RpcError::new(error_codes::METHOD_NOT_FOUND, format!("this client does not support `{method}`"))
}
