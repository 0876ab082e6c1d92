//! What a provider's schema could not say as it was said.

use serde::Serialize;

/// One change between a tool's schema and what a provider is shown of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Where, as a JSON pointer into the input schema; what a reference stands for is told where the
    /// reference stands.
    pub place: String,
    /// Which keyword.
    pub keyword: String,
    /// What became of it.
    pub change: Change,
    /// Why.
    pub why: &'static str,
}

impl Loss {
    /// At the root.
    pub(crate) fn new(keyword: &str, change: Change, why: &'static str) -> Self {
        Self { place: String::new(), keyword: keyword.to_owned(), change, why }
    }
}

/// What became of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Said in the provider's own way.
    Rewritten,
    /// The provider wants it, and it was not there.
    Added,
    /// Under another name, which is turned back where a call is read.
    Renamed,
    /// Only told in the description: a model may heed it, nothing checks it before the call.
    Told,
    /// Gone: the call is still checked against it.
    Dropped,
    /// The whole tool is left out of this format.
    LeftOut,
}

impl Change {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rewritten => "rewritten",
            Self::Added => "added",
            Self::Renamed => "renamed",
            Self::Told => "told",
            Self::Dropped => "dropped",
            Self::LeftOut => "left_out",
        }
    }
}
