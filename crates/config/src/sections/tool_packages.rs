//! The catalogue of tool packages.

use option_types::PackageLimits;

use crate::parsers::bytes;
use crate::section::section;

/// The least limit, in bytes: a package with code takes some blocks.
const LEAST: u64 = 1 << 20;
const ADVICE: &str = "allow at least `1MiB`";

section! {
    /// The tool packages under `/catalogue`. Limits count after a restart.
    for PackageLimits as "ToolPackages": Show {
        /// Most bytes that all unpacked packages take in the data directory, such as `20GiB`; at least
        /// `1MiB`. Default: `4GiB`.
        total as "bytes": u64 = bytes(LEAST..=u64::MAX, ADVICE), default PackageLimits::default().total;
        /// Most bytes that the unpacked packages of one organisation take; at least `1MiB`. Default: `4GiB`.
        per_organisation as "bytes_per_organisation": u64 = bytes(LEAST..=u64::MAX, ADVICE),
            default PackageLimits::default().per_organisation;
    }
}

#[cfg(test)]
mod tests;
