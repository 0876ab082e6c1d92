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
    /// With what was taken before it, where there was something.
    #[must_use]
    pub fn after(self, before: Option<Self>) -> Self {
        let Some(before) = before else { return self };
        let cpu_ms = before.cpu_ms.zip(self.cpu_ms).map(|(before, own)| before.saturating_add(own));
        Self { cpu_ms, peak_kib: before.peak_kib.max(self.peak_kib), ..self }
    }
}
