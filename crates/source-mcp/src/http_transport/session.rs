//! HTTP requests to one endpoint, across successive MCP sessions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::mcp::{ProtocolEra, ProtocolVersion};
use bytes::Bytes;
use egress::{EgressError, EgressResponse, RequestLimits, RequestTemplate};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use tokio::sync::{Semaphore, watch};

use super::{HttpEndpoint, PostResponse, response_body};
use crate::connection::{DeliveryError, McpConnection};
use crate::delivery_errors::HttpRequestError;
use crate::request_headers::HeaderPair;
use oauth_client::AccessToken;

/// Headers and request templates that all requests of one session share.
#[derive(Debug)]
pub(crate) struct HttpSession {
    headers: HeaderMap,
    /// Template of requests with a message body.
    post_template: Result<RequestTemplate, EgressError>,
    /// Template of all other requests.
    bodyless_template: Result<RequestTemplate, EgressError>,
    /// Whether the server assigned a session id.
    pub(super) has_session_id: bool,
    /// Number of the session; 0 before the negotiation.
    pub(crate) generation: u64,
}

impl HttpSession {
    fn new(
        http: &HttpEndpoint,
        headers: HeaderMap,
        has_session_id: bool,
        generation: u64,
    ) -> Arc<Self> {
        let HttpEndpoint { egress, class, uri, .. } = http;
        let mut with_type = headers.clone();
        let json = HeaderValue::from_static("application/json");
        with_type.insert(header::CONTENT_TYPE, json);
        let posts = egress.prepare_template(class, uri, with_type);
        let others = egress.prepare_template(class, uri, headers.clone());
        Arc::new(Self {
            headers,
            post_template: posts,
            bodyless_template: others,
            has_session_id,
            generation,
        })
    }
}

/// HTTP transport of one connection to an endpoint.
#[derive(Debug)]
pub(crate) struct StreamableHttpTransport {
    endpoint: Arc<HttpEndpoint>,
    /// Maximum bytes of one message.
    pub(super) max_message_bytes: usize,
    initial_session: Arc<HttpSession>,
    session: Mutex<Arc<HttpSession>>,
    /// Number of the current session. Notifies tasks that must start again in each session.
    pub(crate) session_generation: watch::Sender<u64>,
    /// Ensures that one task at a time opens a new session.
    pub(crate) renewal_lock: Semaphore,
    /// Whether the server leaves streams open after the answer.
    pub(super) leaves_streams_open: AtomicBool,
}

impl StreamableHttpTransport {
    /// Creates the transport and sends nothing yet. `max_bytes` limits one message, in bytes.
    pub(crate) fn new(http: Arc<HttpEndpoint>, era: ProtocolEra, max_bytes: usize) -> Self {
        let mut headers = http.headers.clone();
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, both);
        if era == ProtocolEra::Stateless {
            headers.insert(
                PROTOCOL_VERSION_HEADER,
                HeaderValue::from_static(ProtocolVersion::LATEST.as_str()),
            );
        }
        let bare = HttpSession::new(&http, headers, false, 0);
        Self {
            endpoint: http,
            max_message_bytes: max_bytes,
            session: Mutex::new(Arc::clone(&bare)),
            initial_session: bare,
            session_generation: watch::Sender::new(0),
            renewal_lock: Semaphore::new(1),
            leaves_streams_open: AtomicBool::new(false),
        }
    }

    /// Returns the current session.
    pub(crate) fn current_session(&self) -> Arc<HttpSession> {
        Arc::clone(&self.session.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins a new session with this protocol version and id.
    pub(crate) fn begin_session(&self, version: ProtocolVersion, session: Option<HeaderValue>) {
        let mut headers = self.initial_session.headers.clone();
        headers.insert(PROTOCOL_VERSION_HEADER, HeaderValue::from_static(version.as_str()));
        let has_session_id = session.is_some();
        if let Some(session) = session {
            headers.insert(SESSION_ID_HEADER, session);
        }
        let generation = *self.session_generation.borrow() + 1;
        let seat = HttpSession::new(&self.endpoint, headers, has_session_id, generation);
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = seat;
        self.session_generation.send_replace(generation);
    }

    /// Sends a request and resolves with the head of its response.
    pub(crate) async fn post_request(
        &self,
        connection: &Arc<McpConnection>,
        id: i64,
        text: Bytes,
        headers: Vec<HeaderPair>,
        is_negotiation: bool,
    ) -> Result<PostResponse, DeliveryError> {
        let mut is_retry = false;
        loop {
            let seat = if is_negotiation {
                Arc::clone(&self.initial_session)
            } else {
                self.current_session()
            };
            let sent = self.send_request(&seat, (Method::POST, &headers), text.clone()).await;
            let response = sent.map_err(DeliveryError::Http)?;
            if response.status() == StatusCode::NOT_FOUND && seat.has_session_id && !is_retry {
                // The server does not know the session, so it executed nothing.
                response_body::drain_body(response.into_body()).await;
                // Boxed: sessions are rarely renewed.
                Box::pin(connection.renew_session(seat.generation)).await?;
                is_retry = true;
                continue;
            }
            let is_bad_request = response.status() == StatusCode::BAD_REQUEST;
            let answer = PostResponse::from_response(self, response, id, is_negotiation).await;
            let answer = answer.map_err(DeliveryError::Http)?;
            if is_bad_request && seat.has_session_id && answer.is_session_lost() {
                // Only the error text reports it, and the server may have executed the call. So
                // this call fails, and the next one has a new session.
                drop(Box::pin(connection.renew_session(seat.generation)).await);
            }
            return Ok(answer);
        }
    }

    /// Sends a message that expects no answer.
    pub(crate) async fn post_message(&self, text: Bytes) -> Result<(), HttpRequestError> {
        let seat = self.current_session();
        let response = self.send_request(&seat, (Method::POST, &[]), text).await?;
        if response.status().is_success() {
            response_body::drain_body(response.into_body()).await;
            return Ok(());
        }
        Err(response_body::read_failure(response).await.0)
    }

    /// Opens an event stream: the server stream, or the rest of a stream that broke off.
    pub(super) async fn open_stream(
        &self,
        session: &HttpSession,
        last_event_id: Option<&HeaderValue>,
    ) -> Result<EgressResponse, HttpRequestError> {
        let last =
            last_event_id.map(|last| (HeaderName::from_static("last-event-id"), last.clone()));
        let last: Vec<_> = last.into_iter().collect();
        self.send_request(session, (Method::GET, &last), Bytes::new()).await
    }

    /// Closes the session, if there is one.
    pub(crate) async fn close_session(&self) {
        let seat = self.current_session();
        if !seat.has_session_id {
            return;
        }
        match self.send_request(&seat, (Method::DELETE, &[]), Bytes::new()).await {
            // 405: the server expires sessions itself.
            Ok(response) => response_body::drain_body(response.into_body()).await,
            Err(error) => tracing::debug!(%error, "cannot close a session"),
        }
    }

    /// Sends a request, with an OAuth token if the endpoint has ever required one.
    async fn send_request(
        &self,
        seat: &HttpSession,
        (method, extra_headers): (Method, &[HeaderPair]),
        body: Bytes,
    ) -> Result<EgressResponse, HttpRequestError> {
        let account = self.endpoint.token_provider();
        // Boxed: keeps the future of requests without a token small.
        if let Some(awake) = account.filter(|account| account.is_auth_required()) {
            return Box::pin(self.send_authorized(
                (awake, None),
                seat,
                (method, extra_headers),
                body,
            ))
            .await;
        }
        let first =
            self.send_with_token(seat, (method.clone(), extra_headers), body.clone(), None).await?;
        let wants_token =
            matches!(first.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let Some(account) = account.filter(|_| wants_token) else { return Ok(first) };
        Box::pin(self.send_authorized((account, Some(first)), seat, (method, extra_headers), body))
            .await
    }

    /// Sends a request with this token.
    pub(super) async fn send_with_token(
        &self,
        session: &HttpSession,
        (method, extra_headers): (Method, &[HeaderPair]),
        body: Bytes,
        token: Option<&AccessToken>,
    ) -> Result<EgressResponse, HttpRequestError> {
        let prepared =
            if body.is_empty() { &session.bodyless_template } else { &session.post_template };
        let prepared = prepared.as_ref().map_err(EgressError::clone)?;
        let token = token.map(|token| (header::AUTHORIZATION, token.authorization_header()));
        let more = extra_headers.iter().cloned().chain(token);
        // The reader of a reply counts its bytes. The call limits its time.
        let limits = RequestLimits {
            header_timeout: Duration::MAX,
            body_idle_timeout: Duration::MAX,
            max_body_bytes: usize::MAX,
            ..RequestLimits::default()
        };
        let sending = self.endpoint.egress.send_template(prepared, (method, more), body, limits);
        let response = sending.await?;
        if response.status().is_redirection() {
            let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            return Err(HttpRequestError::redirected(to.unwrap_or("nowhere")));
        }
        Ok(response)
    }

    /// Records that this server leaves its streams open.
    pub(super) fn mark_leaves_streams_open(&self) {
        self.leaves_streams_open.store(true, Ordering::Relaxed);
    }
}

const PROTOCOL_VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION_ID_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
