//! Defines the resources that a sandboxed call used.

use serde::{Deserialize, Serialize};

/// CPU time and peak memory of a call that ran in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxUsage {
    /// Confinement tier of the sandbox: `whole` or `fenced`.
    pub tier: String,
    /// CPU time of all its processes together, in milliseconds. Absent if they had to be killed
    /// before they reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Peak memory of the largest process in KiB. For a worker, which is reused between calls, it
    /// counts from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_kib: Option<u64>,
}

impl SandboxUsage {
    /// Adds the usage of an earlier run, if there is one.
    #[must_use]
    pub fn plus_earlier(self, earlier: Option<Self>) -> Self {
        let Some(earlier) = earlier else { return self };
        let cpu_ms =
            earlier.cpu_ms.zip(self.cpu_ms).map(|(earlier, own)| earlier.saturating_add(own));
        Self { cpu_ms, peak_kib: earlier.peak_kib.max(self.peak_kib), ..self }
    }
}
