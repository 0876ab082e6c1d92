//! A node with one tool, which gives back its input.

use std::sync::Arc;

use proto::node::Tool;
use proto::serve::{Asked, Boxed, Said, Tools, serve};
use proto::{MetadataMap, Status};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

struct Same;

impl Tools for Same {
    fn who(&self, _: MetadataMap) -> Boxed<Result<String, Status>> {
        Box::pin(std::future::ready(Ok(String::new())))
    }
    fn list(&self, _: MetadataMap) -> Boxed<Result<Vec<Tool>, Status>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
    fn call(&self, asked: Asked) -> Boxed<Result<Said, Status>> {
        let said = Said { success: true, output: asked.input, ..Said::default() };
        Box::pin(std::future::ready(Ok(said)))
    }
    fn node_id(&self) -> String {
        "bench".to_owned()
    }
    fn draining(&self) -> bool {
        false
    }
}

/// Serves for ever.
pub(super) async fn run(listener: TcpListener) -> Result<(), String> {
    let served = serve(Arc::new(Same), listener, None, CancellationToken::new()).await;
    served.map_err(|error| error.to_string())
}
