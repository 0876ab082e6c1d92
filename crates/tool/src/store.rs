//! Defines the ports to all stored state besides the record. Durable values are written by
//! compare-and-set only; a cached value may be missing or untrusted at any time.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::BoxFuture;

/// Version of a write; grows with each write of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// A value with its key and the version of its write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedValue {
    /// Key of the value.
    pub key: String,
    /// Version of the write.
    pub version: Version,
    /// The value; empty if the write removed the key.
    pub bytes: Bytes,
    /// True if this write removed the key.
    pub is_removal: bool,
}

/// Compare-and-set condition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WritePrecondition {
    /// The key must be absent.
    Absent,
    /// The key must have this version.
    Version(Version),
}

impl WritePrecondition {
    /// Returns whether a key with this version may be written; `None` if the key is absent.
    pub fn allows_write(self, current: Option<Version>) -> bool {
        match self {
            Self::Absent => current.is_none(),
            Self::Version(version) => current == Some(version),
        }
    }
}

/// Stores values by key. Keys are `kind/name`.
pub trait Store: Send + Sync + fmt::Debug {
    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn get_value<'a>(
        &'a self,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<VersionedValue>, StoreError>>;

    /// Writes `bytes` if `expect` holds; `None` removes the key.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the condition does not hold, [`StoreError::Unavailable`].
    fn put_value<'a>(
        &'a self,
        key: &'a str,
        expect: WritePrecondition,
        bytes: Option<Bytes>,
    ) -> BoxFuture<'a, Result<Version, StoreError>>;

    /// Lists values whose keys begin with `prefix` and follow `after`, ordered by key.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn scan_prefix<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<VersionedValue>, StoreError>>;

    /// Returns the version of the newest write. A read that begins afterwards sees it and all writes
    /// before it, so a reader that has read everything follows with the changes since this version.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn current_version(&self) -> BoxFuture<'_, Result<Version, StoreError>>;

    /// Lists the writes after `since` in order, including removals.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], also if removals after `since` are no longer stored.
    fn changes_since(
        &self,
        since: Version,
    ) -> BoxFuture<'_, Result<Vec<VersionedValue>, StoreError>>;
}

/// Caches values that may be lost. Readers must tolerate a missing value and must verify every
/// value: others may write here too.
pub trait Cache: Send + Sync + fmt::Debug {
    /// Returns the value of a key, at most `max_bytes` bytes; `None` also if it is larger or has
    /// expired.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], soon: nobody waits for a cache that does not respond.
    fn get_cached<'a>(
        &'a self,
        key: &'a str,
        max_bytes: usize,
    ) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>>;

    /// Returns true if all keys are present.
    ///
    /// # Errors
    /// As [`Cache::get_cached`].
    fn contains_all<'a>(&'a self, keys: &'a [&'a str]) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Writes all pairs or none, to expire after `ttl`.
    ///
    /// # Errors
    /// As [`Cache::get_cached`].
    fn put_all<'a>(
        &'a self,
        pairs: &'a [(&'a str, Bytes)],
        ttl: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// Exchanges short messages between servers. Delivery is best effort and the channel is not
/// trusted: subscribers must tolerate loss and verify every message.
pub trait MessageBus: Send + Sync + fmt::Debug {
    /// Publishes a message of at most [`MAX_MESSAGE_BYTES`] bytes on a channel.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], promptly.
    fn publish_message<'a>(
        &'a self,
        channel: &'a str,
        message: Bytes,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Subscribes to a channel; the subscriber's own messages arrive too.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], promptly.
    fn subscribe_channel<'a>(
        &'a self,
        channel: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn BusSubscription>, StoreError>>;
}

/// Maximum size of a message in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// Receives the messages of a channel.
pub trait BusSubscription: Send {
    /// Returns messages in order; empty if none arrived for a while.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: messages may have been lost.
    fn next_messages(&mut self) -> BoxFuture<'_, Result<Vec<Bytes>, StoreError>>;
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
