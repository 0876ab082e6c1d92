//! Embeddings of texts, by the installed model, or by the built-in word vectors where none is installed.

use std::path::Path;
use std::sync::Arc;

use builtins::Cages;
use tool::Problem;

use crate::model::{Installed, label};
use crate::word_vectors;

/// The name of the built-in word vectors, in answers.
const WORD_VECTORS: &str = "toolkeep-word-vectors";

/// What vectors are made by.
#[derive(Debug)]
pub(crate) enum Embedder {
    /// Whether a model is installed that is not used, for want of a sandbox.
    WordVectors {
        has_model: bool,
    },
    Model(Arc<Installed>),
}

impl Embedder {
    /// The model that is installed below `models`, or the word vectors; and what is wrong where a model is installed
    /// that is not used. Tries the sandbox where that has not happened and a model is installed.
    pub(crate) async fn find(models: &Path, cages: &Arc<Cages>) -> (Self, Option<Problem>) {
        let Some(model) = Installed::find(models, cages) else {
            return (Self::WordVectors { has_model: false }, None);
        };
        let Err(why) = cages.tier().await else { return (Self::Model(Arc::new(model)), None) };
        let problem = Problem {
            place: format!("language model {}", model.facts().label()),
            message: format!("is not used: {why}; the built-in word vectors answer"),
            fix: Some(cages.advice().await.to_owned()),
        };
        (Self::WordVectors { has_model: true }, Some(problem))
    }

    /// The model, where one is used.
    pub(crate) fn model(&self) -> Option<Arc<Installed>> {
        match self {
            Self::WordVectors { .. } => None,
            Self::Model(model) => Some(Arc::clone(model)),
        }
    }

    /// Its name and dimensions, as answers have them.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::WordVectors { .. } => label(WORD_VECTORS, word_vectors::dimensions()),
            Self::Model(model) => model.facts().label(),
        }
    }

    /// What callers should know of it, for descriptions.
    pub(crate) fn description(&self) -> String {
        let label = self.label();
        match self {
            Self::WordVectors { has_model } => {
                let why = if *has_model {
                    "this server has no sandbox for its language model"
                } else {
                    "no language model is installed on this server"
                };
                format!(
                    "Model: {label}. It compares the words of English texts, not their order or negation; {why}."
                )
            }
            Self::Model(_) => format!(
                "Model: {label}. It uses the beginning of a long text, about 100 to 400 words."
            ),
        }
    }
}

/// The name and dimensions of the word vectors that answer where no model is installed.
pub fn built_in_label() -> String {
    Embedder::WordVectors { has_model: false }.label()
}
