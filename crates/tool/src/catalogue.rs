//! Defines the port to tool packages, the central registry of the cluster tools: entries that
//! describe a tool, and packages that hold its code. Nothing runs here.

use std::fmt;

use bytes::Bytes;

use crate::{Boxed, Json, Org};

/// Errors of the tool package store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueFault {
    /// Another entry has the id.
    #[error("there is an entry `{0}` already")]
    Exists(String),
    /// No entry has this id.
    #[error("there is no such entry")]
    Missing,
    /// The entry or package is invalid.
    #[error("{0}")]
    Unfit(String),
    /// A limit is reached.
    #[error("{0}")]
    Full(String),
    /// The storage does not respond.
    #[error("{0}")]
    Unavailable(String),
}

/// Result of a tool package operation, as a boxed future.
pub type Catalogued<'a, T> = Boxed<'a, Result<T, CatalogueFault>>;

/// Stores the tool packages of each organisation separately.
pub trait Catalogue: Send + Sync + fmt::Debug {
    /// Returns one entry with all its fields.
    ///
    /// # Errors
    /// [`CatalogueFault`].
    fn entry<'a>(&'a self, org: &'a Org, id: &'a str) -> Catalogued<'a, Json>;

    /// Lists all entries of an organisation, ordered by id.
    ///
    /// # Errors
    /// [`CatalogueFault::Unavailable`].
    fn entries<'a>(&'a self, org: &'a Org) -> Catalogued<'a, Vec<Json>>;

    /// Creates an entry and returns its id.
    ///
    /// # Errors
    /// [`CatalogueFault`].
    fn create<'a>(&'a self, org: &'a Org, entry: Json) -> Catalogued<'a, String>;

    /// Creates an entry from a package: a zip with `spec.json`, `tool.zip` and `tool.md`. It is
    /// unpacked completely or not stored.
    ///
    /// # Errors
    /// [`CatalogueFault`].
    fn upload<'a>(&'a self, org: &'a Org, package: Bytes) -> Catalogued<'a, String>;

    /// Updates fields of an entry.
    ///
    /// # Errors
    /// [`CatalogueFault`].
    fn update<'a>(&'a self, org: &'a Org, id: &'a str, changes: Json) -> Catalogued<'a, ()>;

    /// Removes an entry and its package.
    ///
    /// # Errors
    /// [`CatalogueFault`].
    fn remove<'a>(&'a self, org: &'a Org, id: &'a str) -> Catalogued<'a, ()>;
}
