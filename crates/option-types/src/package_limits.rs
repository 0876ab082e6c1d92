//! Limits of the catalogue of tool packages.

/// Most bytes that unpacked packages may take on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackageLimits {
    /// All of them together.
    pub total: u64,
    /// Those of one organisation.
    pub per_organisation: u64,
}

impl Default for PackageLimits {
    /// 4 GiB for an organisation, and for all together.
    fn default() -> Self {
        Self { total: 4 << 30, per_organisation: 4 << 30 }
    }
}
