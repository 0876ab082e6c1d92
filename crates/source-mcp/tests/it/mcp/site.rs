//! HTTP servers on loopback: rmcp's own, and scripted ones.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use axum::serve::ListenerExt as _;
use egress::{EgressClient, EgressOptions};
use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig,
    SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler};
use serde_json::{Value, json};
use source_mcp::{HttpEndpoint, McpOptions, McpSource};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tool::{Secret, SourceName};

/// Server that runs until it is dropped.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    /// Its own runtime: a drop closes every connection, like a crash.
    runtime: Option<Runtime>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Site {
    pub(crate) fn serve(app: Router) -> Self {
        Self::serve_at("127.0.0.1:0", app)
    }

    /// Serves at this address, which another server may have used before.
    pub(crate) fn serve_at(address: &str, app: Router) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let listener = listener.tap_io(move |stream| {
                // Otherwise Nagle's algorithm delays the server's small writes by 40 ms per call.
                stream.set_nodelay(true).unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
            });
            axum::serve(listener, app).await.unwrap();
        });
        Self { address, connections, runtime: Some(runtime) }
    }

    /// Creates a server that answers each request by `script`.
    pub(crate) fn script<F>(script: impl Fn(Asked) -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response> + Send + 'static,
    {
        let app = Router::new().fallback(move |request: Request| {
            let script = script.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, 1 << 24).await.unwrap();
                let message = serde_json::from_slice(&body).unwrap_or(Value::Null);
                script(Asked { parts, message, body }).await
            }
        });
        Self::serve(app)
    }

    pub(crate) fn source(&self, options: McpOptions) -> McpSource {
        let url = format!("http://{}/mcp", self.address);
        let headers = [("x-key".to_owned(), Secret::new("open sesame"))];
        let http = HttpEndpoint::new(&egress(), &url, &headers).unwrap();
        McpSource::with_http(SourceName::new("web").unwrap(), options, http)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

pub(crate) fn egress() -> EgressClient {
    EgressClient::new(EgressOptions::default()).unwrap()
}

/// Request received by a script.
pub(crate) struct Asked {
    pub(crate) parts: Parts,
    pub(crate) message: Value,
    /// Body as received.
    pub(crate) body: Bytes,
}

impl Asked {
    pub(crate) fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// Builds the answer to this request.
    pub(crate) fn answer(&self, result: &Value) -> String {
        json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).to_string()
    }

    /// Answers as any handshake-era server: handshake, one tool, nothing else.
    pub(crate) fn usual(&self) -> Response {
        match (self.parts.method.as_str(), self.method()) {
            ("POST", "initialize") => {
                let info = json!({"name": "site", "version": "1"});
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info});
                reply(200, &[("content-type", "application/json")], self.answer(&result))
            }
            ("POST", "tools/list") => {
                let tools = json!({"tools": [super::peer::definition("tool")]});
                reply(200, &[("content-type", "application/json")], self.answer(&tools))
            }
            ("POST", _) => reply(202, &[], ""),
            _ => reply(405, &[], ""),
        }
    }
}

pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Body::from(body.into())).unwrap()
}

/// The head of a longer response and the start of its body; then the server closes the connection.
pub(crate) fn cut_reply(content_type: &str, start: &'static str) -> Response {
    let parts = [Ok(start), Err(std::io::Error::other("the connection is cut"))];
    let response = Response::builder().header("content-type", content_type);
    let response = response.header("content-length", "1000");
    response.body(Body::from_stream(futures_util::stream::iter(parts))).unwrap()
}

pub(crate) fn stream(events: &[String]) -> Response {
    reply(200, &[("content-type", "text/event-stream; charset=utf-8")], events.concat())
}

/// rmcp's own server: `echo`, `slow` until it is cancelled, `steps` with progress.
#[derive(Clone, Default)]
pub(crate) struct Echo {
    pub(crate) cancelled: Arc<Notify>,
    pub(crate) begun: Arc<Notify>,
    extra: Arc<AtomicUsize>,
    change: Arc<Notify>,
    peers: Arc<Mutex<Vec<Peer<RoleServer>>>>,
}

impl Echo {
    /// Adds a tool and notifies subscribers.
    pub(crate) async fn grow(&self) {
        self.extra.fetch_add(1, Ordering::SeqCst);
        self.change.notify_waiters();
        let peers = self.peers.lock().unwrap().clone();
        for peer in peers {
            drop(peer.notify_tool_list_changed().await);
        }
    }

    pub(crate) fn site(&self, config: StreamableHttpServerConfig) -> Site {
        self.site_at("127.0.0.1:0", config)
    }

    pub(crate) fn site_at(&self, address: &str, config: StreamableHttpServerConfig) -> Site {
        let echo = self.clone();
        let sessions = Arc::new(LocalSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(echo.clone()), sessions, config);
        Site::serve_at(address, Router::new().route_service("/mcp", service))
    }
}

fn tool(name: &str) -> Tool {
    let schema = json!({"type": "object"});
    Tool::new(name.to_owned(), "Does it.", Arc::new(schema.as_object().unwrap().clone()))
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build(),
        )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.peers.lock().unwrap().push(context.peer);
        let mut tools = ["echo", "slow", "steps"].map(tool).to_vec();
        tools.extend((0..self.extra.load(Ordering::SeqCst)).map(|n| tool(&format!("extra{n}"))));
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match &*request.name {
            "slow" => {
                self.begun.notify_one();
                context.ct.cancelled().await;
                self.cancelled.notify_one();
                Err(ErrorData::internal_error("cancelled", None))
            }
            "steps" => {
                let token = context.meta.get_progress_token().unwrap();
                for done in [1.0, 2.0] {
                    let step = ProgressNotificationParam::new(token.clone(), done).with_total(2.0);
                    drop(context.peer.notify_progress(step).await);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ok(CallToolResult::success(vec![ContentBlock::text("done")]).into())
            }
            _ => {
                let said = Value::Object(request.arguments.unwrap_or_default()).to_string();
                Ok(CallToolResult::success(vec![ContentBlock::text(said)]).into())
            }
        }
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.change.notified() => drop(context.sink().notify_tool_list_changed().await),
            }
        }
    }
}

/// Event stream that sends `first` and stays open.
pub(crate) fn endless(first: String) -> Response {
    use futures_util::StreamExt as _;
    let first = futures_util::stream::once(async { Ok::<_, std::io::Error>(first) });
    let body = Body::from_stream(first.chain(futures_util::stream::pending()));
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}
