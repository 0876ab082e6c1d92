//! An adapter that runs rmcp's client over the tests' HTTP client.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientConfig, ClientJsonRpcMessage, ElicitRequestParams, ElicitResult, ElicitationAction,
    ErrorData, Implementation, ProgressNotificationParam, ProtocolVersion,
    ResourceUpdatedNotificationParam,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt as _, NotificationContext, RequestContext, RoleClient,
    RunningService,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use serde_json::json;
use sse_stream::{Sse, SseStream};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::client::connect;
use super::{Client, within_a_minute};

type Failure = StreamableHttpError<hyper::Error>;
type Headers = HashMap<http::HeaderName, http::HeaderValue>;

/// One connection for each request.
#[derive(Debug, Clone)]
struct PeerHttpClient {
    address: SocketAddr,
    path: String,
    bearer: String,
    tasks: TaskTracker,
}

impl PeerHttpClient {
    async fn send(
        &self,
        method: Method,
        (session, headers): (Option<Arc<str>>, Headers),
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let stream = TokioIo::new(connect(self.address).await);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(Failure::Client)?;
        drop(self.tasks.spawn(async move { drop(connection.await) }));
        let mut request = Request::builder()
            .method(method)
            .uri(&self.path)
            .header(HOST, self.address.to_string())
            .header(ACCEPT, "application/json, text/event-stream")
            .header(AUTHORIZATION, &self.bearer);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(session) = session {
            request = request.header("mcp-session-id", &*session);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).unwrap();
        sender.send_request(request).await.map_err(Failure::Client)
    }
}

fn event_stream(body: Incoming) -> BoxStream<'static, Result<Sse, SseError>> {
    SseStream::new(body).boxed()
}

impl StreamableHttpClient for PeerHttpClient {
    type Error = hyper::Error;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = serde_json::to_vec(&message)?;
        let response = self.send(Method::POST, (session, headers), body.into()).await?;
        let header = |name: &str| {
            response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        let (session, kind) = (header("mcp-session-id"), header("content-type"));
        if response.status() == StatusCode::ACCEPTED {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if kind.as_deref() == Some("text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(
                event_stream(response.into_body()),
                session,
            ));
        }
        let body = response.into_body().collect().await.map_err(Failure::Client)?.to_bytes();
        Ok(StreamableHttpPostResponse::Json(serde_json::from_slice(&body)?, session))
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.send(Method::DELETE, (Some(session), headers), Bytes::new()).await.map(drop)
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let response = self.send(Method::GET, (session, headers), Bytes::new()).await?;
        if response.status() != StatusCode::OK {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        Ok(event_stream(response.into_body()))
    }
}

/// Notifications and requests that a client receives, and its answers.
#[derive(Debug, Clone)]
pub(crate) struct PeerHandler(mpsc::UnboundedSender<String>);

impl ClientHandler for PeerHandler {
    fn get_info(&self) -> ClientConfig {
        let capabilities =
            json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        let capabilities = serde_json::from_value(capabilities).unwrap();
        ClientConfig::new(capabilities, Implementation::new("peer", "1"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let told = ElicitResult::new(ElicitationAction::Accept);
        Ok(told.with_content(json!({"answer": 42})))
    }

    async fn on_progress(
        &self,
        told: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.0.send(format!("progress {}", told.progress)).unwrap();
    }

    async fn on_resource_updated(
        &self,
        told: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.0.send(format!("updated {}", told.uri)).unwrap();
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.send("tools".to_owned()).unwrap();
    }
}

/// A client that runs, and what it hears.
pub(crate) struct Peer {
    pub(crate) client: RunningService<RoleClient, PeerHandler>,
    notifications: mpsc::UnboundedReceiver<String>,
}

impl Peer {
    /// One of either era with this client's key.
    pub(crate) async fn new(client: &Client, modern: bool) -> Self {
        let (sender, heard) = mpsc::unbounded_channel();
        let (address, path) = client.mcp_address();
        let wire =
            PeerHttpClient { address, path, bearer: client.bearer(), tasks: TaskTracker::new() };
        let config = StreamableHttpClientTransportConfig::with_uri("http://localhost/mcp");
        let transport = StreamableHttpClientTransport::with_client(wire, config);
        let lifecycle = if modern {
            ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            }
        } else {
            ClientLifecycleMode::Initialize
        };
        let client =
            within_a_minute(PeerHandler(sender).serve_with_lifecycle(transport, lifecycle))
                .await
                .unwrap();
        Self { client, notifications: heard }
    }

    /// Returns the next received message.
    pub(crate) async fn next_notification(&mut self) -> String {
        within_a_minute(self.notifications.recv()).await.unwrap()
    }
}
