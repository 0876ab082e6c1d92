//! Merges the source catalogs into one immutable catalog and reports name conflicts as problems.
//!
//! A source catalog holds the offers of one source, compiled once. The catalog merges all of them:
//! immutable, versioned and swapped atomically, so that a call ends on the catalog that it started
//! with. This crate does no I/O and knows neither sources nor policy.

pub mod arguments;
mod beside;
pub mod canonical;
mod claim;
pub mod current;
pub mod diff;
pub mod entry;
pub mod merge;
mod part;
pub mod pin;
pub mod registry;
pub mod schema;
mod shards;
pub mod shelf;

pub use beside::Beside;
pub use current::{Current, Snapshot};
pub use diff::Diff;
pub use entry::Entry;
pub use merge::{At, Catalog};
pub use part::Part;
pub use pin::{Pin, PinState};
pub use registry::{OnConflict, Registry};
pub use schema::{ArgumentFault, Schema};
pub use shelf::{Held, Shelf, State};
