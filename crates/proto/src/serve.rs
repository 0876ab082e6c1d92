//! A server of calls: both services, health and reflection, for whoever has tools.

mod running;
mod seated;
mod shaken;
mod stream;

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::ServerConfig;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_health::server::HealthReporter;

use crate::connect::Dialled;
use crate::node::node_server::{Node, NodeServer};
use crate::node::{CancelRequest, CancelResponse, ListRequest, ListResponse, Progress, Tool};
use crate::toolrpc::tool_executor_server::{ToolExecutor, ToolExecutorServer};
use crate::toolrpc::{CallFunctionRequest, CallFunctionResponse};
use crate::{DESCRIPTORS, MAX_MESSAGE, TIMEOUT, node};
use running::{Entered, Running};
pub use seated::Seat;
use stream::Events;

/// Calls of one connection at a time; more wait.
const STREAMS: u32 = 256;
/// How often a client is asked whether it is still there, and how long it may take to answer.
const ALIVE: Duration = Duration::from_secs(10);
/// Progress that waits to be sent; more is dropped, for nobody waits to tell it.
const PROGRESS: usize = 16;

/// Bytes of a question about health or reflection, which need no credential.
const ASKED: usize = 16 << 10;

/// What is told to be healthy; the first is the server as a whole.
const SERVICES: [&str; 3] = ["", "toolrpc.ToolExecutor", "toolkeep.node.v1.Node"];

/// A future at a seam.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A call as it came.
pub struct Asked {
    /// The tool.
    pub tool_name: String,
    /// Its input, unread.
    pub input: Bytes,
    /// What came beside it, the caller's credential among it.
    pub headers: MetadataMap,
    /// How long the caller will wait, where it says so.
    pub within: Option<Duration>,
    /// Where progress goes.
    pub progress: Told,
    /// Fires when the caller cancels, where it can; a caller that goes away drops the call.
    pub cancelled: Option<CancellationToken>,
    /// What [`Tools::connected`] made for the connection that it came on; nothing where that is not known.
    pub connection: Option<Connection>,
}

/// What comes of `call`; nothing where the caller cancels it before.
pub async fn unless_cancelled<T>(
    cancelled: Option<CancellationToken>,
    call: impl Future<Output = T>,
) -> Option<T> {
    let Some(cancelled) = cancelled else { return Some(call.await) };
    cancelled.run_until_cancelled(call).await
}

/// What a server remembers of one connection.
pub type Connection = Arc<dyn Any + Send + Sync>;

/// Takes progress; nothing where the caller did not ask for it.
#[derive(Debug, Clone, Default)]
pub struct Told(Option<tokio::sync::mpsc::Sender<Progress>>);

impl Told {
    /// `done` of `total`. Never waits.
    pub fn tell(&self, done: f64, total: Option<f64>, message: &str) {
        if let Some(sender) = &self.0 {
            let progress = Progress { done, total, message: message.to_owned() };
            // Lossy on purpose.
            drop(sender.try_send(progress));
        }
    }

    /// Whether anybody listens.
    pub fn wanted(&self) -> bool {
        self.0.is_some()
    }
}

/// What came of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Whether the tool succeeded.
    pub success: bool,
    /// What it answered.
    pub output: Bytes,
    /// What went wrong, in words, on one line.
    pub error: String,
    /// Beside it.
    pub metadata: BTreeMap<String, String>,
}

/// Who has tools.
pub trait Tools: Send + Sync + 'static {
    /// A connection begins; its calls have what this gives back.
    fn connected(&self) -> Option<Connection> {
        None
    }

    /// Whether who sends these headers may send a message at all. Asked before a message is waited for
    /// that has not arrived with its headers.
    ///
    /// # Errors
    /// Where the credential is no good.
    fn admit(
        &self,
        _headers: MetadataMap,
        _connection: Option<Connection>,
    ) -> Boxed<Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// In whose name a request comes: what one cancels, another cannot.
    ///
    /// # Errors
    /// Where the credential is no good.
    fn who(&self, headers: MetadataMap) -> Boxed<Result<String, Status>>;

    /// The tools for that caller.
    fn list(&self, headers: MetadataMap) -> Boxed<Result<Vec<Tool>, Status>>;

    /// Runs one call, for the caller of its headers. What went wrong with it is a [`Said`]; the status is
    /// for requests that are none, such as one without a credential.
    fn call(&self, asked: Asked) -> Boxed<Result<Said, Status>>;

    /// The node's id; empty where this is none.
    fn node_id(&self) -> String;

    /// Whether no new calls are wanted.
    fn draining(&self) -> bool;
}

/// Where calls come from.
pub enum On {
    /// Whoever reaches it. With TLS, whoever its authority does not know is not let in (see
    /// [`crate::tls::Identity::server`]).
    Tcp(TcpListener, Option<Arc<ServerConfig>>),
    /// Whoever may open the file of the socket.
    Unix(UnixListener),
    /// One connection that this side makes, and makes again; the other side shakes hands over it as
    /// where it had dialled. For a node that nobody can reach.
    Dialled {
        /// Makes it.
        dial: Arc<dyn Fn() -> Dialled + Send + Sync>,
        /// Which node this is.
        node_id: String,
        /// What it shows, and whom it lets call.
        tls: Arc<ServerConfig>,
    },
}

impl std::fmt::Debug for On {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("On")
    }
}

/// Serves until `stop` fires, and then until the calls that run are done.
///
/// # Errors
/// Where the listener breaks.
pub async fn serve(
    tools: Arc<dyn Tools>,
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    stop: CancellationToken,
) -> io::Result<()> {
    serve_on(tools, On::Tcp(listener, tls), stop).await
}

/// The same, each connection where it has its seat.
///
/// # Errors
/// Where the services cannot be described.
pub async fn serve_seated(
    tools: Arc<dyn Tools>,
    listener: TcpListener,
    seat: &(dyn Fn() -> Seat + Send + Sync),
    stop: CancellationToken,
) -> io::Result<()> {
    let (routes, health) = services(Arc::clone(&tools)).await?;
    let ways = Arc::new(seated::Ways { tools, routes: routes.prepare() });
    let served = seated::serve(ways, listener, seat, stop.clone());
    tokio::join!(served, ended(health, stop));
    Ok(())
}

/// The same, wherever calls come from.
///
/// # Errors
/// Where the listener breaks.
pub async fn serve_on(tools: Arc<dyn Tools>, on: On, stop: CancellationToken) -> io::Result<()> {
    let (routes, health) = services(tools).await?;
    let ended = ended(health, stop);
    let router = Server::builder()
        .max_concurrent_streams(STREAMS)
        .http2_keepalive_interval(Some(ALIVE))
        .http2_keepalive_timeout(Some(ALIVE))
        .add_routes(routes);
    let served = match on {
        On::Tcp(listener, Some(tls)) => {
            router.serve_with_incoming_shutdown(shaken::shaken(listener, tls), ended).await
        }
        On::Tcp(listener, None) => {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            router.serve_with_incoming_shutdown(incoming, ended).await
        }
        On::Unix(listener) => {
            let incoming = futures_util::stream::unfold(listener, |listener| async {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                Some((accepted, listener))
            });
            router.serve_with_incoming_shutdown(incoming, ended).await
        }
        On::Dialled { dial, node_id, tls } => {
            let incoming = shaken::dialled(dial, node_id, tls);
            router.serve_with_incoming_shutdown(incoming, ended).await
        }
    };
    served.map_err(io::Error::other)
}

/// All services for these tools, and who tells that they are healthy.
async fn services(tools: Arc<dyn Tools>) -> io::Result<(Routes, HealthReporter)> {
    let (health, health_service) = tonic_health::server::health_reporter();
    for service in SERVICES {
        health.set_service_status(service, tonic_health::ServingStatus::Serving).await;
    }
    let told = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let broken = |error| io::Error::other(format!("the descriptors: {error}"));
    let v1 = told().build_v1().map_err(broken)?;
    let v1alpha = told().build_v1alpha().map_err(broken)?;
    let (v1, v1alpha) =
        (v1.max_decoding_message_size(ASKED), v1alpha.max_decoding_message_size(ASKED));
    let health_service = health_service.max_decoding_message_size(ASKED);
    let door = Door { tools, running: Running::default() };
    let executor = ToolExecutorServer::new(door.clone())
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let node = NodeServer::new(door)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let routes = Routes::new(health_service)
        .add_service(v1)
        .add_service(v1alpha)
        .add_service(executor)
        .add_service(node);
    Ok((routes, health))
}

/// Waits for the end, and tells it to who asks how it goes.
async fn ended(health: HealthReporter, stop: CancellationToken) {
    stop.cancelled().await;
    for service in SERVICES {
        health.set_service_status(service, tonic_health::ServingStatus::NotServing).await;
    }
}

#[derive(Clone)]
struct Door {
    tools: Arc<dyn Tools>,
    running: Running,
}

impl Door {
    /// Whose it is matters only where it can be cancelled.
    async fn entered(&self, headers: &MetadataMap, id: &str) -> Result<Entered, Status> {
        let who =
            if id.is_empty() { String::new() } else { self.tools.who(headers.clone()).await? };
        self.running.enter(who, id)
    }
}

#[tonic::async_trait]
impl ToolExecutor for Door {
    async fn call_function(
        &self,
        request: Request<CallFunctionRequest>,
    ) -> Result<Response<CallFunctionResponse>, Status> {
        let (headers, mut extensions, call) = request.into_parts();
        let CallFunctionRequest { tool_name, input } = call;
        let connection = extensions.remove::<Connection>();
        // Nobody has a name for it to cancel it by.
        let (within, cancelled) = (within(&headers), None);
        let progress = Told::default();
        let asked = Asked { tool_name, input, headers, within, progress, cancelled, connection };
        let Said { success, output, error, metadata } = self.tools.call(asked).await?;
        Ok(Response::new(CallFunctionResponse { success, output, error, metadata }))
    }
}

#[tonic::async_trait]
impl Node for Door {
    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let (headers, _, ListRequest {}) = request.into_parts();
        let (node_id, draining) = (self.tools.node_id(), self.tools.draining());
        let tools = self.tools.list(headers).await?;
        Ok(Response::new(ListResponse { node_id, tools, draining }))
    }

    type CallStream = Events;

    async fn call(&self, request: Request<node::CallRequest>) -> Result<Response<Events>, Status> {
        let (headers, _, node::CallRequest { call_id, tool_name, input }) = request.into_parts();
        let entered = self.entered(&headers, &call_id).await?;
        let (sender, told) = tokio::sync::mpsc::channel(PROGRESS);
        let (within, cancelled, connection) = (within(&headers), Some(entered.cancelled()), None);
        let progress = Told(Some(sender));
        let asked = Asked { tool_name, input, headers, within, progress, cancelled, connection };
        Ok(Response::new(stream::events(self.tools.call(asked), told, entered)))
    }

    async fn cancel(
        &self,
        request: Request<CancelRequest>,
    ) -> Result<Response<CancelResponse>, Status> {
        let (headers, _, CancelRequest { call_id }) = request.into_parts();
        let who = self.tools.who(headers).await?;
        Ok(Response::new(CancelResponse { found: self.running.cancel(who, call_id) }))
    }
}

/// gRPC's `grpc-timeout`: up to eight digits and a unit.
fn within(headers: &MetadataMap) -> Option<Duration> {
    let text = headers.as_ref().get(TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(count.saturating_mul(3600)),
        "M" => Duration::from_secs(count.saturating_mul(60)),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
