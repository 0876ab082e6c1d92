//! The port to the catalogue of tools (spec 4's central registry): entries that say what a tool is and how it
//! is used, and packages that hold one with its code. Nothing of it runs here.

use std::fmt;

use bytes::Bytes;

use crate::{Boxed, Json, Org};

/// Why the catalogue did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueFault {
    /// Another entry has the id.
    #[error("there is an entry `{0}` already")]
    Exists(String),
    /// There is none.
    #[error("there is no such entry")]
    Missing,
    /// It cannot be taken as it is.
    #[error("{0}")]
    Unfit(String),
    /// A bound is reached.
    #[error("{0}")]
    Full(String),
    /// What keeps it does not answer.
    #[error("{0}")]
    Unavailable(String),
}

/// What became of it.
pub type Catalogued<'a, T> = Boxed<'a, Result<T, CatalogueFault>>;

/// The entries of organisations, each for itself.
pub trait Catalogue: Send + Sync + fmt::Debug {
    /// One entry, with all its fields.
    ///
    /// # Errors
    /// [`CatalogueFault`].
    fn entry<'a>(&'a self, org: &'a Org, id: &'a str) -> Catalogued<'a, Json>;

    /// All entries of an organisation, in the order of their ids.
    ///
    /// # Errors
    /// [`CatalogueFault::Unavailable`].
    fn entries<'a>(&'a self, org: &'a Org) -> Catalogued<'a, Vec<Json>>;

    /// Puts an entry in that was not there; answers its id.
    ///
    /// # Errors
    /// [`CatalogueFault`].
    fn create<'a>(&'a self, org: &'a Org, entry: Json) -> Catalogued<'a, String>;

    /// The same with its package: a zip with `spec.json`, `tool.zip` and `tool.md`. All of it comes out, or
    /// nothing is kept.
    ///
    /// # Errors
    /// [`CatalogueFault`].
    fn upload<'a>(&'a self, org: &'a Org, package: Bytes) -> Catalogued<'a, String>;

    /// Changes fields of an entry.
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
