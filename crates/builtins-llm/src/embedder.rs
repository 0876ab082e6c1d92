//! Embeddings of texts, by the installed model, or by the built-in word vectors where none is installed.

use std::path::Path;

use crate::model::{Installed, label};
use crate::vector::Vector;
use crate::word_vectors;

/// The name of the built-in word vectors, in answers.
const WORD_VECTORS: &str = "toolkeep-word-vectors";

/// What vectors are made by.
#[derive(Debug)]
pub(crate) enum Embedder {
    WordVectors,
    Model(Box<Installed>),
}

impl Embedder {
    /// The model that is installed below `models`, or the word vectors.
    pub(crate) fn find(models: &Path) -> Self {
        Installed::find(models).map_or(Self::WordVectors, |model| Self::Model(Box::new(model)))
    }

    /// Its name and dimensions, as answers have them.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::WordVectors => label(WORD_VECTORS, word_vectors::dimensions()),
            Self::Model(model) => model.facts().label(),
        }
    }

    /// What callers should know of it, for descriptions.
    pub(crate) fn description(&self) -> String {
        let label = self.label();
        match self {
            Self::WordVectors => format!(
                "Model: {label}. It compares the words of English texts, not their order or negation; no language model is \
                 installed on this server."
            ),
            Self::Model(_) => format!(
                "Model: {label}. It uses the beginning of a long text, about 100 to 400 words."
            ),
        }
    }

    /// The vector of a text, with length 1.
    ///
    /// # Errors
    /// Why there is none: an installed model that cannot be read is no reason to answer by another.
    pub(crate) fn embed(&self, text: &str) -> Result<Vector, String> {
        match self {
            Self::WordVectors => word_vectors::embed(text),
            Self::Model(model) => model.sentences()?.vector(text),
        }
    }
}

/// The name and dimensions of the word vectors that answer where no model is installed.
pub fn built_in_label() -> String {
    Embedder::WordVectors.label()
}
