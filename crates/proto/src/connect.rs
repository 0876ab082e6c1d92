//! Calls over connections that somebody else makes.

mod short;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::MAX_MESSAGE;
use crate::node::node_client::NodeClient;
use crate::toolrpc::tool_executor_client::ToolExecutorClient;
use crate::toolrpc::{CallFunctionRequest, CallFunctionResponse};
use short::{Dial, Short};

/// Between two questions whether the other side is still there, and how long it may take to answer one:
/// a node that falls silent is lost after twice this.
const ALIVE: Duration = Duration::from_secs(10);

/// Both directions of a connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection that is being made.
pub type Dialled = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send>>;

/// A line to one server. Its connections are made at the first call, and again after they broke.
#[derive(Debug, Clone)]
pub struct Line {
    channel: Channel,
    /// Where there may be further connections.
    short: Option<Arc<Short>>,
}

impl Line {
    /// Over connections of `dial`: one at a time. Must be called on a runtime; a task of it carries the
    /// line.
    pub fn new(dial: impl Fn() -> Dialled + Send + Sync + 'static) -> Self {
        Self::over(Arc::new(dial))
    }

    /// The same, with a further connection for each runtime that calls, for [`Line::call`].
    pub fn spread(dial: impl Fn() -> Dialled + Send + Sync + 'static) -> Self {
        let dial: Dial = Arc::new(dial);
        let short = Some(Arc::new(Short::new(Arc::clone(&dial))));
        Self { short, ..Self::over(dial) }
    }

    fn over(dial: Dial) -> Self {
        let connector = tower::service_fn(move |_: Uri| {
            let dialled = dial();
            async move { dialled.await.map(TokioIo::new) }
        });
        // The address is the dialler's to know; this one only stands in `:authority`.
        let endpoint = Endpoint::from_static("http://node")
            .http2_keep_alive_interval(ALIVE)
            .keep_alive_timeout(ALIVE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20);
        Self { channel: endpoint.connect_with_connector_lazy(connector), short: None }
    }

    /// Spec 4's call, by the shortest way there is. What fails before anything was sent has a
    /// [`tonic::ConnectError`] beneath it.
    ///
    /// # Errors
    /// The server's status, or what went wrong on the way.
    pub async fn call(
        &self,
        call: CallFunctionRequest,
        within: Duration,
    ) -> Result<CallFunctionResponse, Status> {
        if let Some(short) = &self.short {
            return short.call(&call, within).await;
        }
        let mut request = Request::new(call);
        request.set_timeout(within);
        // Apart, for it is large: those that go the short way do not carry its room about.
        let mut executor = self.executor();
        Ok(Box::pin(executor.call_function(request)).await?.into_inner())
    }

    /// For other clients, such as health's.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Spec 4's own calls.
    pub fn executor(&self) -> ToolExecutorClient<Channel> {
        ToolExecutorClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// Calls that tell how far they came.
    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }
}
