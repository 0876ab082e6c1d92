//! Losses: parts of a schema that a provider's format cannot express.

use serde::Serialize;

/// One difference between a tool's schema and its rendering for a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SchemaLoss {
    /// Location as a JSON pointer into the input schema. For a resolved reference, the location of
    /// the reference.
    #[serde(rename = "place")]
    pub pointer: String,
    /// The changed keyword.
    pub keyword: String,
    /// Kind of the change.
    pub change: LossKind,
    /// Reason of the change.
    #[serde(rename = "why")]
    pub reason: &'static str,
}

impl SchemaLoss {
    /// Creates a loss at the root of the schema.
    pub(crate) fn new(keyword: &str, change: LossKind, reason: &'static str) -> Self {
        Self::at_pointer("", keyword, change, reason)
    }

    /// Creates a loss at `pointer`.
    pub(crate) fn at_pointer(
        pointer: impl Into<String>,
        keyword: &str,
        change: LossKind,
        reason: &'static str,
    ) -> Self {
        Self { pointer: pointer.into(), keyword: keyword.to_owned(), change, reason }
    }
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// Rewritten in the provider's own form.
    Rewritten,
    /// Added because the provider requires it.
    Added,
    /// Renamed; the original name is restored when a call is parsed.
    Renamed,
    /// Described in the tool's description only: the provider does not check it before the call.
    #[serde(rename = "told")]
    DescribedOnly,
    /// Dropped; the gateway still validates the call against it.
    Dropped,
    /// The whole tool is omitted from this format.
    #[serde(rename = "left_out")]
    ToolOmitted,
}

impl LossKind {
    /// Returns the name of the change.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rewritten => "rewritten",
            Self::Added => "added",
            Self::Renamed => "renamed",
            Self::DescribedOnly => "told",
            Self::Dropped => "dropped",
            Self::ToolOmitted => "left_out",
        }
    }
}
