//! The catalogue of tools (spec 4's central registry, contracts 4.5 and 4.6): entries in the store, and
//! packages unpacked into a folder of Toolkeep's own.
//!
//! An entry tells of a tool; it is none, and nothing of a package is run here.

mod disk_usage;
mod entry;
mod kept;
mod package;

pub use kept::{MOST_ENTRIES, Packages};
pub use option_types::PackageLimits;
