//! The built-in tools that compare texts: vectors of their meaning by a small language model.
//!
//! A crate of its own for what runs the model. Word vectors in the binary answer where no model is installed. An
//! operator installs one from files or from a public hub; nothing else is reached for.

mod download;
mod embedder;
mod model;
mod onnx;
mod tools;
mod vector;
mod word_vectors;
mod words;

use builtin_manifests::Family;
use std::path::Path;
use std::sync::Arc;

use tool_manifest::Builtin;

pub use download::{Hub, PinnedFile, PinnedModel, Progress};
use embedder::Embedder;
pub use embedder::built_in_label;
pub use model::{Installed, ModelFacts, install};
pub use onnx::Sentences;
use tools::{Ask, Asking};

/// All tools and what answers them.
const TOOLS: &[(&str, Ask)] = &[
    ("embed_text", tools::embed),
    ("similarity_search", tools::search),
    ("classify_text", tools::classify),
];

/// The tools, with the model that is installed below `models`, else with the built-in word vectors. A model is read
/// when it is first needed.
pub fn all(models: &Path) -> Vec<Builtin> {
    let embedder = Arc::new(Embedder::find(models));
    let description = embedder.description();
    let made = |(name, ask): &(&str, Ask)| {
        let declared = Family::Text.registry().get(name)?.with_description(&description);
        Some(declared.run_by(Asking::new(*ask, Arc::clone(&embedder))))
    };
    TOOLS.iter().filter_map(made).collect()
}

/// What gives the tools a language model.
pub const HELP: &str = "`toolkeep model install` downloads one; `toolkeep model install PATH` takes a folder with an \
                        `.onnx` file and its `tokenizer.json`";

#[cfg(test)]
mod tests;
