//! Stores of everything that is not a record: durable values by compare-and-set, caches, artifacts
//! and messages.
//!
//! [`SqliteStore`] stores values in one file; [`MemoryStore`] in memory, for tests and embedding
//! programs. Both pass the same test suite. [`RedisCache`] and [`StoreCache`] drop expired values.
//! None knows what it stores.

mod artefacts;
mod bounds;
mod kept;
mod memory;
mod redis;
mod row_macs;
mod sealed;
mod sqlite;

pub use self::redis::RedisCache;
pub use artefacts::{ArtefactBounds, FileArtefacts};
pub use bounds::{KEY_BYTES, NEWS_ROWS, SCAN_ROWS, TOMBSTONES, VALUE_BYTES};
pub use kept::StoreCache;
pub use memory::MemoryStore;
pub use row_macs::{MacFile, RejectedRow, Rejection};
pub use sealed::Sealed;
pub use sqlite::SqliteStore;
