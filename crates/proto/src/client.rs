//! The gRPC client: a channel over connections that the caller opens.

mod fast_path;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::MAX_MESSAGE_BYTES;
use crate::node::node_client::NodeClient;
use crate::toolrpc::tool_executor_client::ToolExecutorClient;
use crate::toolrpc::{CallFunctionRequest, CallFunctionResponse};
use fast_path::{ConnectFn, RuntimeConnections};

/// Keepalive interval and timeout. A node that stops responding is dropped after twice this time.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// A bidirectional byte stream.
pub trait IoStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> IoStream for T {}

/// A connection that is being opened.
pub type ConnectFuture = Pin<Box<dyn Future<Output = io::Result<Box<dyn IoStream>>> + Send>>;

/// A gRPC channel to one server. Connects at the first call and reconnects after a failure.
#[derive(Debug, Clone)]
pub struct GrpcChannel {
    channel: Channel,
    /// The fast path, if further connections are allowed.
    fast_path: Option<Arc<RuntimeConnections>>,
}

impl GrpcChannel {
    /// Creates a channel that opens connections with the given function, one at a time. Must be
    /// called inside a runtime, which drives the channel.
    pub fn new(connect: impl Fn() -> ConnectFuture + Send + Sync + 'static) -> Self {
        Self::from_connect_fn(Arc::new(connect))
    }

    /// Like `new`, with a further connection for each calling runtime, for [`GrpcChannel::call_function`].
    pub fn with_runtime_connections(
        connect: impl Fn() -> ConnectFuture + Send + Sync + 'static,
    ) -> Self {
        let dial: ConnectFn = Arc::new(connect);
        let fast_path = Some(Arc::new(RuntimeConnections::new(Arc::clone(&dial))));
        Self { fast_path, ..Self::from_connect_fn(dial) }
    }

    fn from_connect_fn(connect: ConnectFn) -> Self {
        let connector = tower::service_fn(move |_: Uri| {
            let stream = connect();
            async move { stream.await.map(TokioIo::new) }
        });
        // A placeholder for `:authority`; the connect function knows the address.
        let endpoint = Endpoint::from_static("http://node")
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_INTERVAL)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20);
        Self { channel: endpoint.connect_with_connector_lazy(connector), fast_path: None }
    }

    /// Calls `CallFunction`, over the fast path if there is one. If nothing was sent, the error's
    /// source chain contains a `tonic::ConnectError`.
    ///
    /// # Errors
    /// The status of the server, or a transport error.
    pub async fn call_function(
        &self,
        request_message: CallFunctionRequest,
        timeout: Duration,
    ) -> Result<CallFunctionResponse, Status> {
        if let Some(fast_path) = &self.fast_path {
            return fast_path.call_unary(&request_message, timeout).await;
        }
        let mut request = Request::new(request_message);
        request.set_timeout(timeout);
        // Boxed because it is large: calls on the fast path do not carry it.
        let mut executor = self.executor_client();
        Ok(Box::pin(executor.call_function(request)).await?.into_inner())
    }

    /// Returns the tonic channel, for other clients such as the health service's.
    pub fn tonic_channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Returns a client of the `ToolExecutor` service of the cluster tools.
    pub fn executor_client(&self) -> ToolExecutorClient<Channel> {
        ToolExecutorClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Returns a client of the `Node` service, whose calls report progress.
    pub fn node_client(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }
}
