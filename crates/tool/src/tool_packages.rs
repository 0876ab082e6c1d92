//! Defines the port to tool packages, the central registry of the cluster tools: entries that
//! describe a tool, and packages that hold its code. Nothing runs here.

use std::fmt;

use bytes::Bytes;

use crate::{BoxFuture, Json, Org};

/// Errors of the tool package store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolPackageError {
    /// Another entry has the id.
    #[error("the entry `{0}` already exists")]
    AlreadyExists(String),
    /// No entry has this id.
    #[error("the entry does not exist")]
    NotFound,
    /// The entry or package is invalid.
    #[error("{0}")]
    Invalid(String),
    /// A limit is reached.
    #[error("{0}")]
    LimitReached(String),
    /// The storage does not respond.
    #[error("{0}")]
    Unavailable(String),
}

/// Result of a tool package operation, as a boxed future.
pub type ToolPackageFuture<'a, T> = BoxFuture<'a, Result<T, ToolPackageError>>;

/// Stores the tool packages of each organisation separately.
pub trait ToolPackageStore: Send + Sync + fmt::Debug {
    /// Returns one entry with all its fields.
    ///
    /// # Errors
    /// [`ToolPackageError`].
    fn get_entry<'a>(&'a self, org: &'a Org, id: &'a str) -> ToolPackageFuture<'a, Json>;

    /// Lists all entries of an organisation, ordered by id.
    ///
    /// # Errors
    /// [`ToolPackageError::Unavailable`].
    fn list_entries<'a>(&'a self, org: &'a Org) -> ToolPackageFuture<'a, Vec<Json>>;

    /// Creates an entry and returns its id.
    ///
    /// # Errors
    /// [`ToolPackageError`].
    fn create_entry<'a>(&'a self, org: &'a Org, entry: Json) -> ToolPackageFuture<'a, String>;

    /// Creates an entry from a package: a zip with `spec.json`, `tool.zip` and `tool.md`. It is
    /// unpacked completely or not stored.
    ///
    /// # Errors
    /// [`ToolPackageError`].
    fn upload_package<'a>(&'a self, org: &'a Org, package: Bytes) -> ToolPackageFuture<'a, String>;

    /// Updates fields of an entry.
    ///
    /// # Errors
    /// [`ToolPackageError`].
    fn update_entry<'a>(
        &'a self,
        org: &'a Org,
        id: &'a str,
        changes: Json,
    ) -> ToolPackageFuture<'a, ()>;

    /// Removes an entry and its package.
    ///
    /// # Errors
    /// [`ToolPackageError`].
    fn remove_entry<'a>(&'a self, org: &'a Org, id: &'a str) -> ToolPackageFuture<'a, ()>;
}
