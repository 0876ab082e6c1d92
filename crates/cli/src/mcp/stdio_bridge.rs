//! The bridge between an MCP client on standard input and output and a server's MCP endpoint.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::CONTENT_TYPE;
use http::{Method, Response, StatusCode};
use mcp::sse::SseDecoder;
use mcp::{RequestId, RpcError, RpcMessage, encode, error_codes, headers, meta};
use tokio::sync::{OnceCell, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::{Backoff, Json, JsonLimits};

use super::argument_headers::ToolArgumentHeaders;
use super::http_request::{
    NegotiatedSession, build_post, build_session_request, is_stateless, negotiated_version,
};
use cli_core::rest_client::{RequestPath, RestClient};
use cli_core::server_transport::{BodyStream, SourceNeed};

/// Maximum number of concurrent requests; beyond that, no further input is read.
const MAX_CONCURRENT_REQUESTS: u32 = 256;
/// Maximum bytes of one event, or of a response that is not a stream.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Maximum number of list pages read for argument headers.
const MAX_PAGES: usize = 100;
/// Delays before a closed stream is reopened.
const RECONNECT_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// The notification that makes a client list the tools again.
const TOOLS_CHANGED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
/// Timeout for running requests after the end of the input.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The state of one client conversation.
pub(super) struct StdioBridge {
    client: RestClient,
    path: String,
    output: mpsc::Sender<Bytes>,
    session: Mutex<NegotiatedSession>,
    /// Cancellable requests by their ids: those of the stateless era.
    cancellable_requests: Mutex<HashMap<RequestId, CancellationToken>>,
    argument_headers: OnceCell<ToolArgumentHeaders>,
    request_permits: Arc<Semaphore>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl StdioBridge {
    pub(super) fn new(client: RestClient, source: Option<&str>, out: mpsc::Sender<Bytes>) -> Self {
        let path = match source {
            Some(source) => RequestPath::from_segments("/mcp", &[source]),
            None => RequestPath::from_segments("/mcp", &[]).with_query("names", Some("safe")),
        };
        Self {
            client,
            path: path.to_string(),
            output: out,
            session: Mutex::default(),
            cancellable_requests: Mutex::default(),
            argument_headers: OnceCell::new(),
            request_permits: Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS as usize)),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        }
    }

    /// Handles one line of input. Resolves when it is forwarded; for a handshake, when that has
    /// finished.
    pub(super) async fn handle_line(self: &Arc<Self>, line: Bytes) {
        if line.is_empty() {
            return;
        }
        let message = match RpcMessage::parse(
            line.clone(),
            JsonLimits::DOCUMENT.around_arguments(mcp::ARGUMENT_DEPTH),
        ) {
            Ok(message) => message,
            Err(fault) => {
                return self
                    .write_message(encode::encode_error(fault.id.as_ref(), &fault.error))
                    .await;
            }
        };
        if self.cancel_request(&message) {
            return;
        }
        if matches!(&message, RpcMessage::Request(request) if request.method == "initialize") {
            return self.forward_message(line, message).await;
        }
        let Ok(place) = Arc::clone(&self.request_permits).acquire_owned().await else { return };
        let this = Arc::clone(self);
        drop(self.tasks.spawn(async move {
            let over = this.shutdown.clone();
            tokio::select! {
                () = this.forward_message(line, message) => {}
                () = over.cancelled() => {}
            }
            drop(place);
        }));
    }

    /// Waits briefly for running requests and ends the session.
    pub(super) async fn close(&self) {
        self.tasks.close();
        // The server's notification stream never ends by itself.
        drop(
            timeout(DRAIN_TIMEOUT, self.request_permits.acquire_many(MAX_CONCURRENT_REQUESTS))
                .await,
        );
        self.shutdown.cancel();
        timeout(DRAIN_TIMEOUT, self.tasks.wait()).await.unwrap_or_default();
        let agreed = lock_mutex(&self.session).clone();
        if agreed.session_id.is_some() {
            let end =
                self.client.open_stream(build_session_request(Method::DELETE, &self.path, &agreed));
            drop(timeout(DRAIN_TIMEOUT, end).await);
        }
    }

    /// Cancels a stateless request by closing its stream; returns whether the message was a
    /// cancellation.
    fn cancel_request(&self, message: &RpcMessage) -> bool {
        let RpcMessage::Notification(told) = message else { return false };
        let id = told.params.as_ref().filter(|_| told.method == "notifications/cancelled");
        let id = id.and_then(|params| RequestId::from_json(&params.get("requestId")?));
        let found = id.and_then(|id| lock_mutex(&self.cancellable_requests).remove(&id));
        found.map(|found| found.cancel()).is_some()
    }

    async fn forward_message(self: &Arc<Self>, line: Bytes, message: RpcMessage) {
        let id = if let RpcMessage::Request(request) = &message { Some(&request.id) } else { None };
        let alone = id.filter(|_| is_stateless(&message)).cloned();
        let given_up = CancellationToken::new();
        if let Some(id) = &alone {
            lock_mutex(&self.cancellable_requests).insert(id.clone(), given_up.clone());
        }
        let done = tokio::select! {
            done = self.exchange_message(line, &message) => done,
            () = given_up.cancelled() => Ok(()),
        };
        if let Some(id) = &alone {
            lock_mutex(&self.cancellable_requests).remove(id);
        }
        if let (Err(error), Some(id)) = (done, id) {
            self.write_message(encode::encode_error(Some(id), &error)).await;
        }
    }

    async fn exchange_message(
        self: &Arc<Self>,
        line: Bytes,
        message: &RpcMessage,
    ) -> Result<(), RpcError> {
        if let RpcMessage::Request(request) = message
            && is_about_sources(&request.method)
        {
            self.client.wait_for_sources(SourceNeed::Overview, None).await;
        }
        let mirrored = self.call_headers(message).await;
        let agreed = lock_mutex(&self.session).clone();
        let request = build_post(&self.path, (line, message), &agreed, mirrored);
        let response =
            self.client.open_stream(request).await.map_err(|failure| {
                RpcError::new(error_codes::INTERNAL_ERROR, failure.to_string())
            })?;
        let session = response.headers().get(headers::SESSION_ID).cloned();
        let begins =
            matches!(message, RpcMessage::Request(request) if request.method == "initialize");
        let status = response.status();
        let mut answers = ResponseMessages::from_response(response)?;
        let mut said = false;
        while let Some(text) = answers.next_message().await? {
            if begins
                && let Ok(RpcMessage::Response(answer)) =
                    RpcMessage::parse(text.clone(), JsonLimits::DOCUMENT)
            {
                self.store_session(session.clone(), answer.result.ok().as_ref());
            }
            said = true;
            self.write_message(text).await;
        }
        if !said && !status.is_success() {
            let message_text = format!("the server answered with status {}", status.as_u16());
            return Err(RpcError::new(error_codes::INTERNAL_ERROR, message_text));
        }
        Ok(())
    }

    fn store_session(self: &Arc<Self>, session: Option<http::HeaderValue>, result: Option<&Json>) {
        let Some(revision) = result.and_then(negotiated_version) else { return };
        let agreed = NegotiatedSession { session_id: session, version: Some(revision) };
        lock_mutex(&self.session).clone_from(&agreed);
        if agreed.session_id.is_some() {
            let this = Arc::clone(self);
            drop(self.tasks.spawn(async move {
                let over = this.shutdown.clone();
                tokio::select! {
                    () = this.forward_server_stream(agreed) => {}
                    () = over.cancelled() => {}
                }
            }));
        }
    }

    /// Forwards the server's notification stream for as long as it is offered.
    async fn forward_server_stream(&self, agreed: NegotiatedSession) {
        let (mut first, mut backoff) = (true, RECONNECT_BACKOFF);
        loop {
            let request = build_session_request(Method::GET, &self.path, &agreed);
            match self.client.open_stream(request).await {
                Ok(opened) if opened.status() == StatusCode::OK => {
                    // Changes in between, or since another server took over, were not reported.
                    if !std::mem::take(&mut first) {
                        self.write_message(Bytes::from_static(TOOLS_CHANGED)).await;
                    }
                    backoff.reset();
                    if let Ok(mut answers) = ResponseMessages::from_response(opened) {
                        while let Ok(Some(text)) = answers.next_message().await {
                            self.write_message(text).await;
                        }
                    }
                }
                Ok(opened) if !opened.status().is_server_error() => return,
                // Another server may be available soon.
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// Returns the argument headers of a call.
    async fn call_headers(&self, message: &RpcMessage) -> Vec<(String, String)> {
        let RpcMessage::Request(request) = message else { return Vec::new() };
        let Some(params) = request.params.as_ref().filter(|_| request.method == "tools/call")
        else {
            return Vec::new();
        };
        if !is_stateless(message) {
            return Vec::new();
        }
        let meta = meta::get_meta(params).unwrap_or_else(Json::empty_object);
        self.argument_headers
            .get_or_init(|| self.load_argument_headers(meta))
            .await
            .call_headers(params)
    }

    async fn load_argument_headers(&self, meta: Json) -> ToolArgumentHeaders {
        let mut mirrors = ToolArgumentHeaders::default();
        let mut cursor = None::<String>;
        for _ in 0..MAX_PAGES {
            let mut params = Json::object_from([(meta::META, &meta)]);
            if let Some(cursor) = &cursor {
                params = params.with_member("cursor", &Json::encode(cursor));
            }
            let text = encode::encode_request(&RequestId::from_number(0), "tools/list", &params);
            let Ok(message) = RpcMessage::parse(text.clone(), JsonLimits::DOCUMENT) else { break };
            let request =
                build_post(&self.path, (text, &message), &NegotiatedSession::default(), Vec::new());
            let Ok(opened) = self.client.open_stream(request).await else { break };
            let Ok(mut answers) = ResponseMessages::from_response(opened) else { break };
            let Ok(Some(text)) = answers.next_message().await else { break };
            let page = match RpcMessage::parse(text, JsonLimits::DOCUMENT) {
                Ok(RpcMessage::Response(answer)) => answer.result.ok(),
                _ => None,
            };
            cursor = page.and_then(|page| mirrors.add_page(&page));
            if cursor.is_none() {
                break;
            }
        }
        mirrors
    }

    /// Writes a message to the client, if it is still there.
    async fn write_message(&self, text: Bytes) {
        self.output.send(text).await.unwrap_or_default();
    }
}

/// Whether the result of a method depends on the sources.
fn is_about_sources(method: &str) -> bool {
    ["tools/", "prompts/", "resources/", "completion/"].iter().any(|kind| method.starts_with(kind))
}

/// The messages of a response, whether JSON or an event stream.
struct ResponseMessages {
    body: BodyStream,
    /// The reader of an event stream; `None` if the body is one message.
    event_reader: Option<SseDecoder>,
    ended: bool,
}

impl ResponseMessages {
    fn from_response(response: Response<BodyStream>) -> Result<Self, RpcError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let events = match kind {
            "text/event-stream" => Some(SseDecoder::new(MAX_MESSAGE_BYTES)),
            "application/json" | "" => None,
            other => {
                let message = format!("the server responded with `{}`", other.escape_debug());
                return Err(RpcError::new(error_codes::INTERNAL_ERROR, message));
            }
        };
        Ok(Self { body: response.into_body(), event_reader: events, ended: false })
    }

    async fn next_message(&mut self) -> Result<Option<Bytes>, RpcError> {
        let broken = |why: &dyn std::fmt::Display| {
            RpcError::new(
                error_codes::INTERNAL_ERROR,
                format!("the response ended early, and the request may have been executed: {why}"),
            )
        };
        let Some(events) = &mut self.event_reader else {
            return self.read_body().await;
        };
        loop {
            while let Some(event) = events.next_event() {
                if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                    return Ok(Some(data.into()));
                }
            }
            let Some(part) = self.body.next().await else { return Ok(None) };
            let part = part.map_err(|error| broken(&error))?;
            events.feed_bytes(&part).map_err(|error| broken(&error))?;
        }
    }

    /// Reads a body of at most one message; an error envelope of REST becomes a JSON-RPC error.
    async fn read_body(&mut self) -> Result<Option<Bytes>, RpcError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(None);
        }
        let mut text = Vec::new();
        while let Some(part) = self.body.next().await {
            let part = part
                .map_err(|error| RpcError::new(error_codes::INTERNAL_ERROR, error.to_string()))?;
            if text.len() + part.len() > MAX_MESSAGE_BYTES {
                return Err(RpcError::new(
                    error_codes::INTERNAL_ERROR,
                    "the response is too large",
                ));
            }
            text.extend_from_slice(&part);
        }
        if text.is_empty() {
            return Ok(None);
        }
        let text = Bytes::from(text);
        let json = Json::parse(text.clone(), JsonLimits::DOCUMENT).ok();
        let refused = json.and_then(|json| json.pick(["error", "jsonrpc"]).into());
        if let Some([Some(error), None]) = refused {
            let message = error.get("message").and_then(|message| message.decode::<String>().ok());
            let message_text =
                message.unwrap_or_else(|| "the server rejected the request".to_owned());
            return Err(RpcError::new(error_codes::INTERNAL_ERROR, message_text));
        }
        Ok(Some(text))
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
