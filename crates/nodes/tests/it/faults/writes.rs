//! A node that records each execution before it responds, so that every recorded call was executed.

use std::sync::Arc;

use proto::node::Tool as Listed;
use proto::server::{FunctionResult, IncomingCall, ServiceFuture, ToolService};
use proto::{MetadataMap, Status};

/// Records the number of a call and the executing node.
type Down = dyn Fn(u64, &str) + Send + Sync;

/// Such a node.
pub(crate) struct WriteLogTools {
    id: String,
    down: Arc<Down>,
}

impl WriteLogTools {
    /// Records in `down` the number of each call and the executing node.
    pub(crate) fn new(id: &str, down: impl Fn(u64, &str) + Send + Sync + 'static) -> Self {
        Self { id: id.to_owned(), down: Arc::new(down) }
    }
}

impl ToolService for WriteLogTools {
    fn caller_id(&self, _: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        Box::pin(async { Ok(String::new()) })
    }
    fn list_tools(&self, _: MetadataMap) -> ServiceFuture<Result<Vec<Listed>, Status>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn call_tool(&self, asked: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        let (id, down) = (self.id.clone(), Arc::clone(&self.down));
        Box::pin(async move {
            let input: serde_json::Value = serde_json::from_slice(&asked.input).unwrap();
            let number = input["n"].as_u64().unwrap();
            down(number, &id);
            tokio::task::yield_now().await;
            let output = serde_json::json!({ "by": id, "n": number }).to_string().into();
            Ok(FunctionResult { success: true, output, ..FunctionResult::default() })
        })
    }
    fn node_id(&self) -> String {
        self.id.clone()
    }
    fn is_draining(&self) -> bool {
        false
    }
}
