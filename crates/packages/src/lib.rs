//! Registry of tool packages (the cluster tools' package registry): entries in the store, and
//! packages unpacked into Toolkeep's own folder.
//!
//! An entry describes a tool, but does not provide it: package code is never executed here.

mod disk_usage;
mod package_archive;
mod package_entry;
mod package_store;

pub use option_types::PackageLimits;
pub use package_store::{MAX_ENTRIES_PER_ORG, PackageStore};
