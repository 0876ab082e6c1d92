//! Limits of the store of tool packages.

/// Maximum disk space of unpacked packages, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackageLimits {
    /// Maximum for all organisations together.
    pub max_total_bytes: u64,
    /// Maximum per organisation.
    pub max_bytes_per_org: u64,
}

impl Default for PackageLimits {
    /// Returns 4 GiB per organisation, and for all together.
    fn default() -> Self {
        Self { max_total_bytes: 4 << 30, max_bytes_per_org: 4 << 30 }
    }
}
