//! Limits of the tool packages.

use option_types::PackageLimits;

use crate::section::section;
use crate::value_parsers::bytes;

/// The lowest limit, in bytes. A package with code takes several blocks of the disk.
const MIN_PACKAGE_BYTES: u64 = 1 << 20;
const MIN_BYTES_HELP: &str = "allow at least `1MiB`";

section! {
    /// The tool packages under `/catalogue`. Changed limits take effect at the next start.
    for PackageLimits as "ToolPackages": RedactedJson {
        /// The most bytes of all unpacked packages in the data directory, such as `20GiB`; at least `1MiB`.
        /// Default: `4GiB`.
        max_total_bytes as "bytes": u64 = bytes(MIN_PACKAGE_BYTES..=u64::MAX, MIN_BYTES_HELP),
            default PackageLimits::default().max_total_bytes;
        /// The most bytes of the unpacked packages of one organisation; at least `1MiB`. Default: `4GiB`.
        max_bytes_per_org as "bytes_per_organisation": u64 = bytes(MIN_PACKAGE_BYTES..=u64::MAX, MIN_BYTES_HELP),
            default PackageLimits::default().max_bytes_per_org;
    }
}

#[cfg(test)]
mod tests;
