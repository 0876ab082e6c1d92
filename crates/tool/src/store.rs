//! The port to everything durable that is not a record. Compare-and-set, and nothing else to write with.

use std::fmt;

use bytes::Bytes;

use crate::Boxed;

/// Numbers the writes of one store, growing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// A value and the write that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// Its key.
    pub key: String,
    /// Of which write.
    pub version: Version,
    /// The value; empty bytes where `news` tells of a removal.
    pub bytes: Bytes,
    /// Whether this write removed the key.
    pub removed: bool,
}

/// What a writer believes stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// This.
    Version(Version),
}

/// Keys and values. Keys are `kind/name`.
pub trait Store: Send + Sync + fmt::Debug {
    /// One value.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Result<Option<Versioned>, StoreError>>;

    /// Writes `bytes` where `expect` holds; `None` removes.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where it does not hold, [`StoreError::Unavailable`].
    fn put<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Boxed<'a, Result<Version, StoreError>>;

    /// Values whose keys begin with `prefix` and follow `after`, in order of keys.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> Boxed<'a, Result<Vec<Versioned>, StoreError>>;

    /// What was written after `since`, in order of writes, removals included.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn news(&self, since: Version) -> Boxed<'_, Result<Vec<Versioned>, StoreError>>;
}

/// The store did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another write came first.
    #[error("`{key}` was changed by someone else")]
    Conflict {
        /// The key.
        key: String,
    },
    /// No answer, or one that cannot be used.
    #[error("{0}")]
    Unavailable(String),
}
