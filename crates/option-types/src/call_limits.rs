//! Limits of concurrent calls.

/// Limits of concurrent calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConcurrencyLimits {
    /// Maximum number in total.
    pub total: usize,
    /// Maximum number per root key.
    pub per_key: usize,
    /// Maximum number per source, so that a hanging source leaves capacity for others.
    pub per_source: usize,
    /// Maximum number per root key and source, so that one key cannot occupy a source.
    pub per_key_and_source: usize,
}

impl Default for ConcurrencyLimits {
    /// Returns 4,096 in total, 1,024 per key, 512 per source, a quarter of them per key.
    fn default() -> Self {
        let per_source = 512;
        let per_key_and_source = Self::default_key_share(per_source);
        Self { total: 4_096, per_key: 1_024, per_source, per_key_and_source }
    }
}

impl ConcurrencyLimits {
    /// Returns the default share of one root key on a source with this limit.
    pub const fn default_key_share(per_source: usize) -> usize {
        let quarter = per_source / 4;
        if quarter == 0 { 1 } else { quarter }
    }
}
