//! Everything durable that is not a record, by compare-and-set.
//!
//! [`SqliteStore`] keeps it in one file; [`MemoryStore`] keeps it while the program runs, for tests
//! and for those who embed the library. Both pass the same suite. Neither knows what it keeps.

mod bounds;
mod memory;
mod sealed;
mod sqlite;

pub use bounds::{KEY_BYTES, NEWS_ROWS, SCAN_ROWS, TOMBSTONES, VALUE_BYTES};
pub use memory::MemoryStore;
pub use sealed::Sealed;
pub use sqlite::SqliteStore;
