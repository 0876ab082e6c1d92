//! Defines the ports to all stored state besides the record. Durable values are written by
//! compare-and-set only; a cached value may be missing or untrusted at any time.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::Boxed;

/// Version of a write; grows with each write of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// A value with its key and the version of its write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// Key of the value.
    pub key: String,
    /// Version of the write.
    pub version: Version,
    /// The value; empty if the write removed the key.
    pub bytes: Bytes,
    /// True if this write removed the key.
    pub removed: bool,
}

/// Compare-and-set condition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The key must be absent.
    Absent,
    /// The key must have this version.
    Version(Version),
}

/// Stores values by key. Keys are `kind/name`.
pub trait Store: Send + Sync + fmt::Debug {
    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Result<Option<Versioned>, StoreError>>;

    /// Writes `bytes` if `expect` holds; `None` removes the key.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the condition does not hold, [`StoreError::Unavailable`].
    fn put<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        bytes: Option<Bytes>,
    ) -> Boxed<'a, Result<Version, StoreError>>;

    /// Lists values whose keys begin with `prefix` and follow `after`, ordered by key.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> Boxed<'a, Result<Vec<Versioned>, StoreError>>;

    /// Lists the writes after `since` in order, including removals.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn news(&self, since: Version) -> Boxed<'_, Result<Vec<Versioned>, StoreError>>;
}

/// Caches values that may be lost. Readers must tolerate a missing value and must verify every
/// value: others may write here too.
pub trait Cache: Send + Sync + fmt::Debug {
    /// Returns the value of a key, at most `most` bytes; `None` also if it is larger or has
    /// expired.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], soon: nobody waits for a cache that does not respond.
    fn get<'a>(&'a self, key: &'a str, most: usize)
    -> Boxed<'a, Result<Option<Bytes>, StoreError>>;

    /// Returns true if all keys are present.
    ///
    /// # Errors
    /// As [`Cache::get`].
    fn has<'a>(&'a self, keys: &'a [&'a str]) -> Boxed<'a, Result<bool, StoreError>>;

    /// Writes all pairs or none, to expire after `life`.
    ///
    /// # Errors
    /// As [`Cache::get`].
    fn put<'a>(
        &'a self,
        pairs: &'a [(&'a str, Bytes)],
        life: Duration,
    ) -> Boxed<'a, Result<(), StoreError>>;
}

/// Exchanges short messages between servers. Delivery is best effort and the channel is not
/// trusted: subscribers must tolerate loss and verify every message.
pub trait Bus: Send + Sync + fmt::Debug {
    /// Publishes a message of at most [`MOST_WORD`] bytes on a channel.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], promptly.
    fn tell<'a>(&'a self, channel: &'a str, word: Bytes) -> Boxed<'a, Result<(), StoreError>>;

    /// Subscribes to a channel; the subscriber's own messages arrive too.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], promptly.
    fn hear<'a>(&'a self, channel: &'a str) -> Boxed<'a, Result<Box<dyn Hearing>, StoreError>>;
}

/// Maximum size of a message in bytes.
pub const MOST_WORD: usize = 4 << 10;

/// Receives the messages of a channel.
pub trait Hearing: Send {
    /// Returns messages in order; empty if none arrived for a while.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: messages may have been lost.
    fn next(&mut self) -> Boxed<'_, Result<Vec<Bytes>, StoreError>>;
}

/// Errors of a store operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another write came first.
    #[error("`{key}` was changed by someone else")]
    Conflict {
        /// Key of the value.
        key: String,
    },
    /// The store did not respond, or its response is invalid.
    #[error("{0}")]
    Unavailable(String),
}
