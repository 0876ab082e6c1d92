//! Text embeddings by the installed model, or by the built-in word vectors if none is installed.

use std::path::Path;
use std::sync::Arc;

use builtins::SandboxProvider;
use tool::Problem;

use crate::embedding_model::{InstalledModel, format_label};

/// Name of the built-in word vectors in answers.
const WORD_VECTORS: &str = "toolkeep-word-vectors";

/// Source of embeddings: an installed model or the built-in word vectors.
#[derive(Debug)]
pub(crate) enum Embedder {
    /// Whether a model is installed but cannot be used without a sandbox.
    WordVectors {
        has_model: bool,
    },
    Model(Arc<InstalledModel>),
}

impl Embedder {
    /// Selects the model installed below `models_dir`, or the word vectors. Also returns the
    /// problem if an installed model cannot be used. Runs the sandbox self-test if a model is
    /// installed and the test has not run.
    pub(crate) async fn select_model(
        models_dir: &Path,
        sandboxes: &Arc<SandboxProvider>,
    ) -> (Self, Option<Problem>) {
        let Some(model) = InstalledModel::locate_model(models_dir, sandboxes) else {
            return (Self::WordVectors { has_model: false }, None);
        };
        let Err(why) = sandboxes.usable_level().await else {
            return (Self::Model(Arc::new(model)), None);
        };
        let problem = Problem {
            location: format!("language model {}", model.facts().label()),
            message: format!("is not used: {why}; the built-in word vectors are used instead"),
            help: Some(sandboxes.fix_hint().await.to_owned()),
        };
        (Self::WordVectors { has_model: true }, Some(problem))
    }

    /// Returns the model, if one is used.
    pub(crate) fn model(&self) -> Option<Arc<InstalledModel>> {
        match self {
            Self::WordVectors { .. } => None,
            Self::Model(model) => Some(Arc::clone(model)),
        }
    }

    /// Returns name and dimensions, as shown in answers.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::WordVectors { .. } => format_label(WORD_VECTORS, word_vectors::dimensions()),
            Self::Model(model) => model.facts().label(),
        }
    }

    /// Returns the sentence about this embedder for tool descriptions.
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

/// Returns name and dimensions of the word vectors that are used when no model is installed.
pub fn built_in_label() -> String {
    Embedder::WordVectors { has_model: false }.label()
}
