//! Stores of everything that is not a record: durable values by compare-and-set, caches, artifacts
//! and messages.
//!
//! [`SqliteStore`] stores values in one file; [`MemoryStore`] in memory, for tests and embedding
//! programs. Both pass the same test suite. [`RedisCache`] and [`StoreCache`] drop expired values.
//! None knows what it stores.

mod encrypted_store;
mod file_artifacts;
mod memory_store;
mod redis_cache;
mod row_macs;
mod sqlite_store;
mod store_cache;
mod store_limits;

pub use self::redis_cache::RedisCache;
pub use encrypted_store::EncryptedStore;
pub use file_artifacts::{ArtifactLimits, FileArtifactStore};
pub use memory_store::MemoryStore;
pub use row_macs::{MacFile, RejectedRow, RowRejection};
pub use sqlite_store::SqliteStore;
pub use store_cache::StoreCache;
pub use store_limits::{
    MAX_CHANGE_ROWS, MAX_KEY_BYTES, MAX_SCAN_ROWS, MAX_TOMBSTONES, MAX_VALUE_BYTES,
};
