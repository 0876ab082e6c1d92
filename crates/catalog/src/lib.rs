//! Shelves of offers to one catalog, or problems.
//!
//! A shelf holds what one source offers, compiled once. A catalog is all shelves merged: immutable,
//! numbered, swapped whole, so that a call that began on one ends on it. This crate does no I/O and
//! knows neither sources nor policy.

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
