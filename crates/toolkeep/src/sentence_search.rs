//! Tool search with the installed language model: the model behind its port, and the task that
//! computes the vectors of tools.

use std::sync::Arc;
use std::time::Duration;

use builtins_llm::{InstalledModel, LanguageTools};
use intake::SourceSupervisor;
use server_core::tool_search::{EmbeddingPurpose, SentenceModel, SentenceVectors};
use tool::{BoxFuture, Store};

/// Time after a failure of the model until it is tried again.
const RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// The installed model, as tool search uses it.
#[derive(Debug)]
struct InstalledSentenceModel(Arc<InstalledModel>);

impl SentenceModel for InstalledSentenceModel {
    fn label(&self) -> String {
        self.0.facts().label()
    }

    fn embed_texts<'a>(
        &'a self,
        purpose: EmbeddingPurpose,
        texts: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, String>> {
        let user = match purpose {
            EmbeddingPurpose::Query => "tool search",
            EmbeddingPurpose::Tools => "tool definitions",
        };
        Box::pin(async move {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            self.0.embed_texts(user, &texts).await
        })
    }
}

/// Returns the vectors of the installed model; `None` without one.
pub(crate) fn sentence_vectors(
    tools: &LanguageTools,
    store: &Arc<dyn Store>,
) -> Option<Arc<SentenceVectors>> {
    let model = Arc::new(InstalledSentenceModel(Arc::clone(tools.model.as_ref()?)));
    Some(Arc::new(SentenceVectors::new(model, Arc::clone(store))))
}

/// Computes the vectors of all tools after the first search, and of those that change; never returns.
pub(crate) async fn run_embedding(vectors: Option<&SentenceVectors>, intake: &SourceSupervisor) {
    let Some(vectors) = vectors else { return std::future::pending().await };
    vectors.wait_until_wanted().await;
    if let Err(error) = vectors.load_stored().await {
        tracing::warn!(%error, "cannot read the vectors of tools: they are computed again");
    }
    let mut versions = intake.subscribe_versions();
    loop {
        versions.borrow_and_update();
        let embedded = vectors.embed_catalog(&intake.catalog()).await;
        if let Err(error) = &embedded {
            tracing::warn!(error, "tools are searched without the language model");
            tokio::time::sleep(RETRY_INTERVAL).await;
        } else if versions.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
