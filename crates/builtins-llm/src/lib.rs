//! Built-in tools that compare texts by the embeddings of a small language model.
//!
//! Separate crate for the model runtime. Word vectors in the binary are used if no model is
//! installed. An operator installs one from files or from a public hub; there is no other download.
//! A model and its tokenizer are untrusted, so one long-lived sandboxed worker parses and runs them
//! ([`run_model_worker`]). The server does neither.

mod download;
mod embedder;
mod embedding_model;
mod embedding_tools;
mod model_worker;
mod model_worker_main;
mod onnx_model;

use builtin_manifests::ToolFamily;
use std::path::Path;
use std::sync::Arc;

use builtins::SandboxProvider;
use tool::Problem;
use tool_manifest::BuiltinTool;

pub use download::{Hub, PinnedFile, PinnedModel, Progress};
use embedder::Embedder;
pub use embedder::built_in_label;
pub use embedding_model::{InstalledModel, ModelFacts, install_model};
use embedding_tools::{EmbeddingFunction, EmbeddingToolExecutor};
pub use model_worker_main::{MODEL_WORKER_COMMAND, run_model_worker};
pub use onnx_model::SentenceModel;

/// Names and implementations of all tools.
const TOOLS: &[(&str, EmbeddingFunction)] = &[
    ("embed_text", embedding_tools::EMBED),
    ("similarity_search", embedding_tools::SEARCH),
    ("classify_text", embedding_tools::CLASSIFY),
];

/// Language tools and the model that they use.
#[derive(Debug)]
pub struct LanguageTools {
    /// Tools of this crate.
    pub tools: Vec<BuiltinTool>,
    /// Installed model, if it is used.
    pub model: Option<Arc<InstalledModel>>,
    /// Reason why an installed model is not used.
    pub problem: Option<Problem>,
}

/// Creates the tools, with the model installed below `models_dir` in a worker of `sandboxes`.
/// Without a model or an allowed sandbox, they use the built-in word vectors. A model is loaded on
/// first use.
pub async fn language_tools(models_dir: &Path, sandboxes: &Arc<SandboxProvider>) -> LanguageTools {
    let (embedder, problem) = Embedder::select_model(models_dir, sandboxes).await;
    let embedder = Arc::new(embedder);
    let description = embedder.description();
    let made = |(name, ask): &(&str, EmbeddingFunction)| {
        let declared = ToolFamily::Text.registry().find_tool(name)?.with_description(&description);
        Some(declared.with_executor(EmbeddingToolExecutor::new(*ask, Arc::clone(&embedder))))
    };
    let tools = TOOLS.iter().filter_map(made).collect();
    LanguageTools { tools, model: embedder.model(), problem }
}

/// Help text: how to install a language model.
pub const HELP: &str = "`toolkeep model install` downloads one; `toolkeep model install PATH` takes a folder with an \
                        `.onnx` file and its `tokenizer.json`";

#[cfg(test)]
mod tests;
