//! The built-in tools that compare texts: vectors of their meaning by a small language model.
//!
//! A crate of its own for what runs the model. The model is no part of Toolkeep: an operator installs it,
//! and without it the tools are not offered. Nothing here reaches for anything but the model's two files.

mod model;
mod tools;
mod words;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use builtins::{Builtin, Registry};
use tool::Problem;

pub use model::{Installed, Sentences, install};
use tools::{Ask, Asking};

/// All tools and what answers them.
const TOOLS: &[(&str, Ask)] = &[
    ("embed_text", tools::embed),
    ("similarity_search", tools::search),
    ("classify_text", tools::classify),
];

static DECLARED: LazyLock<Registry> = LazyLock::new(declared);

#[expect(clippy::expect_used, reason = "the file is a constant, and every test reads it")]
fn declared() -> Registry {
    let text = include_str!(concat!(env!("OUT_DIR"), "/tool_registry.json"));
    Registry::read(text).expect("tool_registry.yaml is sound")
}

/// The tools with the model that is installed below `models`; or why there are none. The model itself is
/// read when it is first needed.
///
/// # Errors
/// What is missing, with what helps.
pub fn all(models: &Path) -> Result<Vec<Builtin>, Problem> {
    let installed = Installed::find(models).map_err(|why| {
        let place = format!("tools {}", names().collect::<Vec<_>>().join(", "));
        Problem::new(place, format!("are not offered: {why}")).fix(HELP)
    })?;
    let model = Arc::new(installed);
    let made = |(name, ask): &(&str, Ask)| {
        Some(DECLARED.get(name)?.run_by(Asking::new(*ask, Arc::clone(&model))))
    };
    Ok(TOOLS.iter().filter_map(made).collect())
}

/// What helps where there is no model.
pub const HELP: &str = "get all-MiniLM-L6-v2 as ONNX with its `tokenizer.json` in a folder, run `toolkeep model \
                        install FOLDER`, and start the server again";

/// The names of all tools here, in the order they are listed.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests;
