//! What a cage cost.

use serde::{Deserialize, Serialize};

/// What a call took that ran in a cage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caged {
    /// How much of a cage there was: `whole` or `fenced`.
    pub tier: String,
    /// Milliseconds of processor time, of all its processes together. Nothing where they had to be killed
    /// without a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// KiB in memory, the most that one of its processes ever had. That of a worker, which is kept between
    /// calls, counts from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_kib: Option<u64>,
}

impl Caged {
    /// What both took, one after the other.
    #[must_use]
    pub fn and(self, then: Self) -> Self {
        let cpu_ms = self.cpu_ms.zip(then.cpu_ms).map(|(own, then)| own.saturating_add(then));
        Self { cpu_ms, peak_kib: self.peak_kib.max(then.peak_kib), ..then }
    }
}
