//! Connection to a server in one protocol era: the pipes of a child process or one HTTP endpoint.
//!
//! [`InFlightRequest`] represents a sent request. All events that the server sends for it come from
//! there.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::mcp::extensions::AllowedExtensions;
use ::mcp::{ProtocolEra, ProtocolVersion, RequestId, RpcError, encode};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tool::{BoxFuture, Json};

use super::call_attribution::ConnectionCallers;
use super::delivery_errors::HttpRequestError;
use super::http_transport::StreamableHttpTransport;
use super::in_flight_request::{InFlightRequest, RequestEvent, RequestOrigin, RpcOutcome};
use super::mcp_options::ServerLimits;
use super::negotiation::{self, NegotiatedServer, NegotiationError};
use super::notifications::NotificationRouter;
use super::outgoing_request::OutgoingRequest;
use super::pipe_transport::{CloseReason, CloseSignal, PipeTransport};
use super::stray_output::StrayOutput;

/// Reason why a request has no answer.
#[derive(Debug, Clone)]
pub(super) enum DeliveryError {
    /// Too many calls are in flight.
    TooManyInFlight,
    /// The connection closed before the request was sent.
    ConnectionClosed,
    /// The connection closed after the request was sent.
    ConnectionLost,
    /// The HTTP request failed, or its answer could not be read.
    Http(HttpRequestError),
}

/// Transport that carries the messages of a connection.
#[derive(Debug)]
pub(super) enum Transport {
    Pipe(PipeTransport),
    Http(StreamableHttpTransport),
}

/// State that a connection shares with its transport.
#[derive(Debug, Clone)]
pub(super) struct ConnectionContext {
    pub(super) notifications: Arc<NotificationRouter>,
    pub(super) stray_output: Arc<StrayOutput>,
    pub(super) close_signal: Arc<CloseSignal>,
    pub(super) callers: Arc<ConnectionCallers>,
    pub(super) tasks: TaskTracker,
}

/// Connection to one server in one protocol era.
#[derive(Debug)]
pub(super) struct McpConnection {
    pub(super) transport: Transport,
    pub(super) context: ConnectionContext,
    era: ProtocolEra,
    negotiated: Mutex<Arc<NegotiatedServer>>,
    call_permits: Arc<Semaphore>,
    /// Maximum calls in flight.
    max_calls: usize,
    next_id: AtomicI64,
    /// Time limit of the protocol negotiation.
    negotiation_timeout: Duration,
    /// Extensions that are relayed between the server and clients.
    extensions: AllowedExtensions,
}

impl McpConnection {
    /// Creates a connection. Sends nothing yet.
    pub(super) fn new(
        transport: Transport,
        era: ProtocolEra,
        context: ConnectionContext,
        (limits, extensions): (&ServerLimits, &AllowedExtensions),
    ) -> Arc<Self> {
        let placeholder = NegotiatedServer {
            raw_result: Json::empty_object(),
            protocol_version: match era {
                ProtocolEra::Handshake => ProtocolVersion::LAST_HANDSHAKE,
                ProtocolEra::Stateless => ProtocolVersion::LATEST,
            },
            capabilities: negotiation::ServerCapabilities::default(),
            supports_both_eras: false,
        };
        Arc::new(Self {
            transport,
            context,
            era,
            negotiated: Mutex::new(Arc::new(placeholder)),
            call_permits: Arc::new(Semaphore::new(limits.max_in_flight_calls)),
            max_calls: limits.max_in_flight_calls,
            next_id: AtomicI64::new(1),
            negotiation_timeout: limits.start_timeout,
            extensions: extensions.clone(),
        })
    }

    /// Returns the protocol era of this connection.
    pub(super) fn era(&self) -> ProtocolEra {
        self.era
    }

    /// Returns the extensions that are relayed between the server and clients.
    pub(super) fn extensions(&self) -> &AllowedExtensions {
        &self.extensions
    }

    /// A request of Toolkeep's own. A server that asks which extensions its client has gets all that
    /// are relayed, since its answer is for all clients.
    fn own_request<'a>(&self, method: &'a str, params: &'a Json) -> OutgoingRequest<'a> {
        let mut request = OutgoingRequest::internal(method, params);
        if let Some(extensions) = self.extensions.declaration() {
            request.client_capabilities = Json::object_from([("extensions", &extensions)]);
        }
        request
    }

    /// Returns what the server declared in the negotiation.
    pub(super) fn negotiated(&self) -> Arc<NegotiatedServer> {
        Arc::clone(&self.negotiated.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the HTTP transport of the connection, if it has one.
    pub(super) fn http_transport(&self) -> Option<&StreamableHttpTransport> {
        match &self.transport {
            Transport::Http(endpoint) => Some(endpoint),
            Transport::Pipe(_) => None,
        }
    }

    /// Whether requests must repeat parts of their body in headers.
    pub(super) fn requires_request_headers(&self) -> bool {
        self.era == ProtocolEra::Stateless && self.http_transport().is_some()
    }

    /// Resolves when the connection is closed.
    pub(super) async fn wait_until_closed(&self) {
        self.context.close_signal.closed.cancelled().await;
    }

    /// Whether the connection is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.context.close_signal.closed.is_cancelled()
    }

    /// Allocates the id of a new request.
    pub(super) fn next_request_id(&self) -> i64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of requests so far, Toolkeep's own included.
    pub(super) fn request_count(&self) -> i64 {
        self.next_id.load(Ordering::Relaxed)
    }

    /// Whether the connection has no call in flight and no subscriber of a resource.
    pub(super) fn is_idle(&self) -> bool {
        self.call_permits.available_permits() == self.max_calls
            && !self.context.notifications.has_subscribers()
    }

    /// Reserves a place for a call in flight.
    pub(super) fn acquire_call_permit(&self) -> Result<OwnedSemaphorePermit, DeliveryError> {
        Arc::clone(&self.call_permits)
            .try_acquire_owned()
            .map_err(|_| DeliveryError::TooManyInFlight)
    }

    /// Sends a request and returns once it is on its way, without waiting for the answer.
    pub(super) async fn start_request(
        self: &Arc<Self>,
        request: &OutgoingRequest<'_>,
        kind: RequestOrigin<'_>,
    ) -> Result<InFlightRequest, DeliveryError> {
        let mut exchange = InFlightRequest::new(Arc::clone(self), self.next_request_id());
        exchange.send_request(request, kind).await?;
        Ok(exchange)
    }

    /// Sends a request of Toolkeep's own and returns the answer. Ignores all other events of the
    /// request.
    pub(super) async fn call_method(
        self: &Arc<Self>,
        method: &str,
        params: &Json,
    ) -> Result<RpcOutcome, DeliveryError> {
        self.send_request(&self.own_request(method, params)).await
    }

    /// Sends a prepared request of Toolkeep's own and returns the answer.
    pub(super) async fn send_request(
        self: &Arc<Self>,
        request: &OutgoingRequest<'_>,
    ) -> Result<RpcOutcome, DeliveryError> {
        let mut exchange = self.start_request(request, RequestOrigin::Internal).await?;
        wait_for_response(&mut exchange).await
    }

    /// Sends a notification to the server.
    pub(super) async fn notify_server(
        &self,
        method: &str,
        params: &Json,
    ) -> Result<(), DeliveryError> {
        self.send_message(encode::encode_notification(method, params)).await
    }

    /// Answers a request of the server.
    pub(super) async fn respond_to_server(
        &self,
        id: &RequestId,
        answer: &Result<Json, RpcError>,
    ) -> Result<(), DeliveryError> {
        self.send_message(match answer {
            Ok(result) => encode::encode_result(id, result),
            Err(error) => encode::encode_error(Some(id), error),
        })
        .await
    }

    /// Sends a message that expects no answer.
    async fn send_message(&self, message: Bytes) -> Result<(), DeliveryError> {
        match &self.transport {
            Transport::Pipe(pipe) => pipe.send_message(message).await,
            Transport::Http(endpoint) => {
                endpoint.post_message(message).await.map_err(DeliveryError::Http)
            }
        }
    }

    /// Negotiates the protocol version, by `initialize` or `server/discover`.
    pub(super) async fn negotiate_version(self: &Arc<Self>) -> Result<(), NegotiationError> {
        let params = negotiation::negotiation_params(self.era, &self.extensions);
        let request = self.own_request(negotiation::negotiation_method(self.era), &params);
        let (mut exchange, mut outcome) = self.send_negotiation(&request).await?;
        if let RpcOutcome::Error(error) = &outcome
            && negotiation::supports_latest_version(self.era, error)
        {
            (exchange, outcome) = self.send_negotiation(&request).await?;
        }
        let about = match outcome {
            RpcOutcome::Result(about) => about,
            RpcOutcome::InvalidResult(invalid) => {
                return Err(NegotiationError::Malformed(invalid.reason));
            }
            RpcOutcome::Error(error) => return Err(NegotiationError::Refused(error)),
        };
        let greeted = negotiation::parse_negotiation(self.era, about)?;
        if let Some(endpoint) = self.http_transport() {
            endpoint.begin_session(greeted.protocol_version, exchange.session_id());
        }
        if self.era == ProtocolEra::Handshake {
            let told = self.notify_server("notifications/initialized", &Json::empty_object()).await;
            told.map_err(NegotiationError::NoResponse)?;
        }
        *self.negotiated.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(greeted);
        Ok(())
    }

    async fn send_negotiation(
        self: &Arc<Self>,
        request: &OutgoingRequest<'_>,
    ) -> Result<(InFlightRequest, RpcOutcome), NegotiationError> {
        let mut exchange = InFlightRequest::new(Arc::clone(self), self.next_request_id());
        exchange
            .send_request(request, RequestOrigin::Negotiation)
            .await
            .map_err(NegotiationError::NoResponse)?;
        let outcome =
            wait_for_response(&mut exchange).await.map_err(NegotiationError::NoResponse)?;
        Ok((exchange, outcome))
    }

    /// Opens a new session in place of session `generation`, which the server has forgotten. The
    /// server may have restarted with other tools.
    pub(super) fn renew_session(
        self: &Arc<Self>,
        generation: u64,
    ) -> BoxFuture<'_, Result<(), DeliveryError>> {
        // Boxed: the negotiation is a request too.
        Box::pin(self.renew_session_inner(generation))
    }

    async fn renew_session_inner(self: &Arc<Self>, generation: u64) -> Result<(), DeliveryError> {
        let endpoint = self.http_transport().ok_or(DeliveryError::ConnectionClosed)?;
        let Ok(_turn) = endpoint.renewal_lock.acquire().await else {
            return Err(DeliveryError::ConnectionClosed);
        };
        if endpoint.current_session().generation != generation {
            return Ok(());
        }
        let renewal_error =
            |why: String| HttpRequestError::failed(format!("cannot open a new session: {why}"));
        let Ok(greeted) = timeout(self.negotiation_timeout, self.negotiate_version()).await else {
            return Err(DeliveryError::Http(HttpRequestError::session_timeout(
                self.negotiation_timeout,
            )));
        };
        let fault = match greeted {
            Ok(()) => {
                self.context.notifications.notify_list_changed();
                return Ok(());
            }
            Err(NegotiationError::NoResponse(why)) => return Err(why),
            Err(NegotiationError::Malformed(why)) => renewal_error(why),
            Err(NegotiationError::Refused(error)) => {
                renewal_error(super::delivery_errors::describe_rpc_error(&error))
            }
            Err(NegotiationError::UnsupportedVersions(theirs)) => {
                renewal_error(negotiation::describe_unsupported(&theirs))
            }
        };
        // The server is not the one that was negotiated with: the connection must be opened anew.
        self.context.close_signal.close_with(CloseReason::SessionLost(fault.to_string()));
        Err(DeliveryError::Http(fault))
    }
}

/// Reads the events of a request until its answer.
async fn wait_for_response(exchange: &mut InFlightRequest) -> Result<RpcOutcome, DeliveryError> {
    let link = Arc::clone(exchange.connection());
    loop {
        match exchange.next_event().await? {
            RequestEvent::Response(Ok(result)) => return Ok(RpcOutcome::Result(result)),
            RequestEvent::Response(Err(error)) => return Ok(RpcOutcome::Error(error)),
            RequestEvent::InvalidResponse(invalid) => {
                return Ok(RpcOutcome::InvalidResult(invalid));
            }
            RequestEvent::InputRequested(question) => {
                let refusal = super::in_flight_request::unsupported_method_error(&question.method);
                link.respond_to_server(&question.id, &Err(refusal)).await?;
            }
            RequestEvent::Progress(_)
            | RequestEvent::Notification(_)
            | RequestEvent::InputRequestCancelled(_) => {}
        }
    }
}
