//! Everything kept that is not a record: what is durable by compare-and-set, and what may be forgotten.
//!
//! [`SqliteStore`] keeps it in one file; [`MemoryStore`] keeps it while the program runs, for tests
//! and for those who embed the library. Both pass the same suite.
//! [`RedisCache`] and [`StoreCache`] forget what its time is over for. None knows what it keeps.

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
