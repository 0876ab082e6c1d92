//! Whether the definitions of a source's tools are deferred in lists for models.

use serde::Serialize;

/// Whether models get the definitions of a source's tools only after a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeferMode {
    /// The mode of the list decides.
    #[default]
    Auto,
    /// No list defers them.
    Never,
    /// Every list defers them.
    Always,
}
