//! A node that writes down what it ran, before it answers: what stands there was done.

use std::sync::Arc;

use proto::node::Tool as Listed;
use proto::serve::{Asked, Boxed, Said, Tools};
use proto::{MetadataMap, Status};

/// Writes down the number of a call, and who ran it.
type Down = dyn Fn(u64, &str) + Send + Sync;

/// Such a node.
pub(crate) struct Writes {
    id: String,
    down: Arc<Down>,
}

impl Writes {
    /// Writes `down` the number of each call, and who ran it.
    pub(crate) fn new(id: &str, down: impl Fn(u64, &str) + Send + Sync + 'static) -> Self {
        Self { id: id.to_owned(), down: Arc::new(down) }
    }
}

impl Tools for Writes {
    fn who(&self, _: MetadataMap) -> Boxed<Result<String, Status>> {
        Box::pin(async { Ok(String::new()) })
    }
    fn list(&self, _: MetadataMap) -> Boxed<Result<Vec<Listed>, Status>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn call(&self, asked: Asked) -> Boxed<Result<Said, Status>> {
        let (id, down) = (self.id.clone(), Arc::clone(&self.down));
        Box::pin(async move {
            let input: serde_json::Value = serde_json::from_slice(&asked.input).unwrap();
            let number = input["n"].as_u64().unwrap();
            down(number, &id);
            tokio::task::yield_now().await;
            let output = serde_json::json!({ "by": id, "n": number }).to_string().into();
            Ok(Said { success: true, output, ..Said::default() })
        })
    }
    fn node_id(&self) -> String {
        self.id.clone()
    }
    fn draining(&self) -> bool {
        false
    }
}
