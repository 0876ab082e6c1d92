//! Errors of changing a toolset.

use policy::ToolsetDefinitionError;
use tool::{LedgerError, SourceName, StoreError};

/// Maximum number of items of a toolset.
pub(crate) const MAX_ITEMS: usize = 10_000;

/// Errors of changing a toolset.
#[derive(Debug, thiserror::Error)]
pub enum ToolsetError {
    /// The definition is invalid.
    #[error("{}: {}", .0.field, .0.message)]
    Definition(ToolsetDefinitionError),
    /// No toolset has the name.
    #[error("no toolset `{0}`")]
    NotFound(String),
    /// The toolset is in the configuration file.
    #[error("the toolset `{0}` is in the configuration file")]
    Configured(SourceName),
    /// A source has the name.
    #[error("the name `{0}` is that of a source")]
    SourceName(SourceName),
    /// Two tools would have one name.
    #[error("the name `{name}` of `{pattern}` is already that of `{other}`")]
    NameTaken {
        /// The name.
        name: String,
        /// Pattern with the name.
        pattern: String,
        /// Item that has the name.
        other: String,
    },
    /// The items changed since they were reviewed.
    #[error("the items of the toolset `{0}` changed since you read them")]
    Changed(SourceName),
    /// A toolset selects too many items.
    #[error("the patterns select {0} items; a toolset has at most {MAX_ITEMS}")]
    TooManyItems(usize),
    /// There are too many toolsets.
    #[error("there are 1,000 toolsets, the maximum")]
    TooMany,
    /// The server has no store for toolsets.
    #[error("this server has no store for toolsets")]
    NoStore,
    /// The store operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change cannot be recorded, and so was not made.
    #[error(transparent)]
    Record(#[from] LedgerError),
}
