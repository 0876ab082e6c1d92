//! MCP over streamable HTTP: rmcp's session logic on guard's way out.
//!
//! One origin, the operator's; no redirects; replies bounded and read to their end, so that their
//! connections serve again. The headers of the operator are added here and never shown to rmcp, which
//! may write what it knows to a log.

mod reply;
mod stream;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use guard::egress::{Body, Class, Egress, HttpLimits, Origin};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header,
};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use tool::{Problem, Secret};

use super::fail::HttpFault;
use super::inflight::{Inbound, Inflight};
use super::link::Wire;
use super::noise::Noise;
use super::outbound;
use super::wording::shown;

/// The longest a call may take here: its own deadline is shorter, and ends the request.
const PATIENT: Duration = Duration::from_hours(6);

/// Set by the protocol, so not by the operator.
const RESERVED: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

type Failure = StreamableHttpError<HttpFault>;

/// A streamable HTTP endpoint.
#[derive(Debug, Clone)]
pub struct Http {
    egress: Egress,
    class: Class,
    uri: Uri,
    headers: HeaderMap,
    place: String,
}

impl Http {
    /// The endpoint at `url`, asked through `egress` with `headers` on every request.
    ///
    /// # Errors
    /// A [`Problem`] with the place and the fix, for a URL or a header that cannot be sent.
    pub fn new(egress: Egress, url: &str, headers: &[(String, Secret)]) -> Result<Self, Problem> {
        let bad = |why: String| Problem::new("url", why).fix("write it as `https://host/path`");
        let origin = Origin::parse(url).map_err(|error| bad(error.to_string()))?;
        let place = format!("`{origin}`");
        let class = Class::Operator { origin };
        let uri = egress.check(&class, url).map_err(|error| bad(error.to_string()))?;
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let at = |why: &str| Problem::new(format!("headers.{}", shown(name, 60)), why);
            if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
                return Err(at("is set by the protocol").fix("take it out"));
            }
            let name = HeaderName::try_from(name).map_err(|_| at("is no name of a header"))?;
            let value = HeaderValue::try_from(value.open());
            let mut value =
                value.map_err(|_| at("has a value that cannot be sent, such as a line end"))?;
            value.set_sensitive(true);
            map.append(name, value);
        }
        Ok(Self { egress, class, uri, headers: map, place })
    }

    /// For people: scheme, host and port.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn uri(&self) -> String {
        self.uri.to_string()
    }
}

/// rmcp's view of an endpoint, for one session.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: Arc<Http>,
    inflight: Arc<Inflight>,
    noise: Arc<Noise>,
    /// Bytes of one message.
    most: usize,
    tasks: TaskTracker,
    /// Told where rmcp opens a new session by itself: the server that forgot ours may have restarted
    /// with other tools.
    changed: Arc<Notify>,
    greeted: Arc<AtomicBool>,
}

/// What rmcp wants on a request besides its body.
struct Extras {
    session: Option<Arc<str>>,
    last_event: Option<String>,
    headers: HashMap<HeaderName, HeaderValue>,
}

impl Client {
    pub(super) fn new(http: Arc<Http>, wire: &Wire, changed: Arc<Notify>, most: usize) -> Self {
        let (inflight, noise) = (Arc::clone(&wire.inflight), Arc::clone(&wire.noise));
        let tasks = wire.tasks.clone();
        Self { http, inflight, noise, most, tasks, changed, greeted: Arc::default() }
    }

    async fn send(
        &self,
        method: Method,
        extras: Extras,
        body: Bytes,
    ) -> Result<Response<Body>, Failure> {
        let Http { egress, class, uri, headers, .. } = &*self.http;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers.clone();
        let map = request.headers_mut();
        map.extend(extras.headers);
        map.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if !request.body().is_empty() {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        let map = request.headers_mut();
        for (name, value) in [
            ("mcp-session-id", extras.session.as_deref()),
            ("last-event-id", extras.last_event.as_deref()),
        ] {
            if let Some(value) = value {
                let value = HeaderValue::from_str(value).map_err(|_| {
                    HttpFault::malformed(format!("gave a `{name}` that cannot be sent back"))
                })?;
                map.insert(HeaderName::from_static(name), value);
            }
        }
        // Sizes are counted where a reply is read; how long one may take is its call's business.
        let limits = HttpLimits {
            headers: PATIENT,
            idle: PATIENT,
            body: usize::MAX,
            ..HttpLimits::default()
        };
        let response = egress.send(class, request, limits).await.map_err(HttpFault::from)?;
        if response.status().is_redirection() {
            let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            return Err(HttpFault::redirected(to.unwrap_or("nowhere")).into());
        }
        Ok(response)
    }

    async fn post(
        &self,
        message: ClientJsonRpcMessage,
        extras: Extras,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.inflight.sent(&message);
        let body = Bytes::from(outbound::body(&message)?);
        let in_session = extras.session.is_some();
        let response = self.send(Method::POST, extras, body).await?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && in_session {
            reply::rest(response.into_body()).await;
            return Err(StreamableHttpError::SessionExpired);
        }
        let JsonRpcMessage::Request(request) = &message else {
            // What a server has to say to a notification or an answer is of no interest.
            return if status.is_success() {
                reply::rest(response.into_body()).await;
                Ok(StreamableHttpPostResponse::Accepted)
            } else {
                Err(reply::failed(response).await.0)
            };
        };
        if status.is_success() {
            let greets = matches!(request.request, ClientRequest::InitializeRequest(_));
            if greets && self.greeted.swap(true, Ordering::Relaxed) {
                self.changed.notify_one();
            }
            self.answered(response, &request.id).await
        } else {
            reply::refused(response, &request.id, &message).await
        }
    }

    async fn answered(
        &self,
        response: Response<Body>,
        id: &RequestId,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let session = reply::session(&response);
        if reply::is(&response, "text/event-stream") {
            let events = stream::Events::answering(response.into_body(), id.clone(), self);
            Ok(StreamableHttpPostResponse::Sse(events.boxed(), session))
        } else if reply::is(&response, "application/json") {
            let message = self.json(response.into_body()).await?;
            Ok(StreamableHttpPostResponse::Json(message, session))
        } else if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            reply::rest(response.into_body()).await;
            Ok(StreamableHttpPostResponse::Accepted)
        } else {
            Err(reply::unexpected(&response).into())
        }
    }

    async fn json(&self, body: Body) -> Result<ServerJsonRpcMessage, Failure> {
        let body = reply::bounded(body, self.most).await?;
        match self.inflight.read(&body) {
            Inbound::Pass(message) => Ok(*message),
            Inbound::Quiet | Inbound::Asked { .. } => {
                Err(HttpFault::malformed("answered a request with no answer".to_owned()).into())
            }
            Inbound::Unreadable(why) => {
                let text = format!("answered with what is no MCP message: {}", shown(&why, 200));
                Err(HttpFault::malformed(text).into())
            }
        }
    }
}

impl StreamableHttpClient for Client {
    type Error = HttpFault;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post(message, Extras { session, last_event: None, headers }).await
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let extras = Extras { session: Some(session), last_event: None, headers };
        let response = self.send(Method::DELETE, extras, Bytes::new()).await?;
        let status = response.status();
        reply::rest(response.into_body()).await;
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportDeleteSession);
        }
        Ok(())
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let extras = Extras { session, last_event, headers };
        let response = self.send(Method::GET, extras, Bytes::new()).await?;
        let status = response.status();
        if status == StatusCode::METHOD_NOT_ALLOWED {
            reply::rest(response.into_body()).await;
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(reply::failed(response).await.0);
        }
        if !reply::is(&response, "text/event-stream") {
            return Err(reply::unexpected(&response).into());
        }
        Ok(stream::Events::unasked(response.into_body(), self).boxed())
    }
}
