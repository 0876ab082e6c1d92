//! The built-in tools that compare texts: vectors of their meaning by a small language model.
//!
//! A crate of its own for what runs the model. Word vectors in the binary answer where no model is installed. An
//! operator installs one from files or from a public hub; nothing else is reached for. A model and its tokenizer are
//! untrusted data, so one kept worker in a cage parses and runs them ([`serve_model`]); the server does neither.

mod download;
mod embedder;
mod model;
mod model_worker;
mod onnx;
mod serve;
mod tools;
mod vector;
mod word_vectors;
mod words;

use builtin_manifests::Family;
use std::path::Path;
use std::sync::Arc;

use builtins::Cages;
use tool::Problem;
use tool_manifest::Builtin;

pub use download::{Hub, PinnedFile, PinnedModel, Progress};
use embedder::Embedder;
pub use embedder::built_in_label;
pub use model::{Installed, ModelFacts, install};
pub use onnx::Sentences;
pub use serve::{MODEL_WORK, serve_model};
use tools::{Ask, Asking};

/// All tools and what answers them.
const TOOLS: &[(&str, Ask)] = &[
    ("embed_text", tools::EMBED),
    ("similarity_search", tools::SEARCH),
    ("classify_text", tools::CLASSIFY),
];

/// The tools, and the model that they use or should use.
#[derive(Debug)]
pub struct Language {
    /// The tools.
    pub tools: Vec<Builtin>,
    /// The installed model, where it is used.
    pub model: Option<Arc<Installed>>,
    /// Why an installed model is not used.
    pub problem: Option<Problem>,
}

/// The tools, with the model that is installed below `models`, in a worker of `cages`; else with the built-in word
/// vectors, also where there is no sandbox that the operator allows. A model is loaded when it is first needed.
pub async fn all(models: &Path, cages: &Arc<Cages>) -> Language {
    let (embedder, problem) = Embedder::find(models, cages).await;
    let embedder = Arc::new(embedder);
    let description = embedder.description();
    let made = |(name, ask): &(&str, Ask)| {
        let declared = Family::Text.registry().get(name)?.with_description(&description);
        Some(declared.run_by(Asking::new(*ask, Arc::clone(&embedder))))
    };
    let tools = TOOLS.iter().filter_map(made).collect();
    Language { tools, model: embedder.model(), problem }
}

/// What gives the tools a language model.
pub const HELP: &str = "`toolkeep model install` downloads one; `toolkeep model install PATH` takes a folder with an \
                        `.onnx` file and its `tokenizer.json`";

#[cfg(test)]
mod tests;
