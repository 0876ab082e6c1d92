//! The ports to everything kept that is not a record. What is durable is written by compare-and-set and
//! nothing else; what a cache holds may be gone, or another's, at any time.

use std::fmt;
use std::time::Duration;

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

/// Keys and values that may be forgotten. Whoever reads one must be able to do without it, and must not
/// believe it unseen: others may write here too.
pub trait Cache: Send + Sync + fmt::Debug {
    /// One value, of at most `most` bytes; `None` also where it is larger or has expired.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], soon: a cache that does not answer is not waited for.
    fn get<'a>(&'a self, key: &'a str, most: usize)
    -> Boxed<'a, Result<Option<Bytes>, StoreError>>;

    /// Whether all these keys are there.
    ///
    /// # Errors
    /// As [`Cache::get`].
    fn has<'a>(&'a self, keys: &'a [&'a str]) -> Boxed<'a, Result<bool, StoreError>>;

    /// Writes these, all or none, to be forgotten after `life`.
    ///
    /// # Errors
    /// As [`Cache::get`].
    fn put<'a>(
        &'a self,
        pairs: &'a [(&'a str, Bytes)],
        life: Duration,
    ) -> Boxed<'a, Result<(), StoreError>>;
}

/// Short words from one server to the others. One may be lost, and others may write there too: whoever hears
/// a word must be able to do without it, and must not believe it unseen.
pub trait Bus: Send + Sync + fmt::Debug {
    /// Tells a word of at most [`MOST_WORD`] bytes on a channel.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], soon.
    fn tell<'a>(&'a self, channel: &'a str, word: Bytes) -> Boxed<'a, Result<(), StoreError>>;

    /// Hears what is told on a channel from here on, one's own words too.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], soon.
    fn hear<'a>(&'a self, channel: &'a str) -> Boxed<'a, Result<Box<dyn Hearing>, StoreError>>;
}

/// Bytes of a word.
pub const MOST_WORD: usize = 4 << 10;

/// Words as they come.
pub trait Hearing: Send {
    /// Some words, in their order; none where a while has passed without any.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: words may have been missed.
    fn next(&mut self) -> Boxed<'_, Result<Vec<Bytes>, StoreError>>;
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
