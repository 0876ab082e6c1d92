//! A node with one tool that returns its input.

use std::sync::Arc;

use proto::node::Tool;
use proto::server::{FunctionResult, IncomingCall, ServiceFuture, ToolService, serve_tcp};
use proto::{MetadataMap, Status};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

struct EchoTools;

impl ToolService for EchoTools {
    fn caller_id(&self, _: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        Box::pin(std::future::ready(Ok(String::new())))
    }
    fn list_tools(&self, _: MetadataMap) -> ServiceFuture<Result<Vec<Tool>, Status>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
    fn call_tool(&self, asked: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        let said =
            FunctionResult { success: true, output: asked.input, ..FunctionResult::default() };
        Box::pin(std::future::ready(Ok(said)))
    }
    fn node_id(&self) -> String {
        "bench".to_owned()
    }
    fn is_draining(&self) -> bool {
        false
    }
}

/// Serves gRPC calls until the process ends.
pub(super) async fn serve_node(listener: TcpListener) -> Result<(), String> {
    let served = serve_tcp(Arc::new(EchoTools), listener, None, CancellationToken::new()).await;
    served.map_err(|error| error.to_string())
}
