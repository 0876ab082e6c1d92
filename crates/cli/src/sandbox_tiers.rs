//! Sandbox tiers of this machine, as `doctor` and `version` report them.

use builtins::SandboxProvider;
use sandbox::{SandboxLevel, SandboxSupport};
use serde::Serialize;

use cli_core::process_launcher::child_launcher;

/// All tiers, the strongest first.
const TIERS: [SandboxLevel; 2] = [SandboxLevel::Full, SandboxLevel::NoNamespaces];

/// Whether code can run in a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TierState {
    Available,
    Unavailable,
    /// A stronger tier is available, so this one was not tried.
    NotTried,
}

/// Result of the self-test of a tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SandboxTier {
    tier: &'static str,
    state: TierState,
    /// Why it is unavailable, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Escape attempts of the self-test, all of which failed if the tier is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) escape_attempts: Option<usize>,
}

impl SandboxTier {
    fn from_support(support: &SandboxSupport, level: SandboxLevel) -> Self {
        let tested = match level {
            SandboxLevel::Full => Some(&support.full),
            SandboxLevel::NoNamespaces => support.no_namespaces.as_ref(),
        };
        let reason = support.missing_reason(level);
        let state = match (tested, &reason) {
            (None, _) => TierState::NotTried,
            (Some(_), Some(_)) => TierState::Unavailable,
            (Some(_), None) => TierState::Available,
        };
        let report = tested.and_then(|tested| tested.as_ref().ok());
        let escape_attempts = report.map(|report| report.attempts.len());
        Self { tier: level.as_str(), state, reason, escape_attempts }
    }
}

/// Sandbox layers and tiers of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SandboxTiers {
    /// The strongest available tier.
    #[serde(rename = "tier")]
    best: Option<&'static str>,
    /// Version of Landlock, 0 if unavailable.
    #[serde(rename = "landlock")]
    pub(crate) landlock_abi: u32,
    #[serde(rename = "seccomp")]
    pub(crate) has_seccomp: bool,
    tiers: Vec<SandboxTier>,
}

impl SandboxTiers {
    /// Summarizes the result of a detection.
    pub(crate) fn from_support(support: &SandboxSupport) -> Self {
        Self {
            best: support.best_level().map(SandboxLevel::as_str),
            landlock_abi: support.landlock_abi,
            has_seccomp: support.has_seccomp,
            tiers: TIERS.map(|level| SandboxTier::from_support(support, level)).into(),
        }
    }

    /// Returns the result of a tier.
    pub(crate) fn tier(&self, level: SandboxLevel) -> Option<&SandboxTier> {
        self.tiers.iter().find(|tier| tier.tier == level.as_str())
    }

    /// Describes the tiers in one line.
    pub(crate) fn describe(&self) -> String {
        let describe = |tier: &SandboxTier| match (tier.state, &tier.reason) {
            (TierState::Available, _) => format!("{} (available)", tier.tier),
            (TierState::NotTried, _) => format!("{} (not tried)", tier.tier),
            (TierState::Unavailable, reason) => {
                format!("{} (unavailable: {})", tier.tier, reason.as_deref().unwrap_or_default())
            }
        };
        self.tiers.iter().map(describe).collect::<Vec<_>>().join(", ")
    }
}

/// Creates the provider whose self-test every report of the sandbox uses. `min_level` is the least
/// tier in which code may run.
pub(crate) fn sandbox_provider(min_level: SandboxLevel) -> SandboxProvider {
    SandboxProvider::new(child_launcher(), None, min_level)
}

#[cfg(test)]
mod tests {
    use sandbox::{SandboxLevel, SandboxSupport, SelfTestReport};
    use serde_json::json;

    use super::SandboxTiers;

    fn support(
        full: Result<SelfTestReport, String>,
        no_namespaces: Option<Result<SelfTestReport, String>>,
    ) -> SandboxSupport {
        SandboxSupport { landlock_abi: 5, has_seccomp: true, full, no_namespaces }
    }

    fn passed() -> SelfTestReport {
        SelfTestReport { attempts: Vec::new() }
    }

    #[test]
    fn a_machine_with_the_strongest_tier_did_not_try_the_other() {
        let tiers = SandboxTiers::from_support(&support(Ok(passed()), None));
        let expected = json!({ "tier": "whole", "landlock": 5, "seccomp": true, "tiers": [
            { "tier": "whole", "state": "available", "escape_attempts": 0 },
            { "tier": "fenced", "state": "not_tried" },
        ]});
        assert_eq!(serde_json::to_value(&tiers).unwrap(), expected);
        assert_eq!(tiers.describe(), "whole (available), fenced (not tried)");
    }

    #[test]
    fn a_missing_tier_has_its_reason() {
        let denied = || Err("user namespaces are denied".to_owned());
        let tiers = SandboxTiers::from_support(&support(denied(), Some(Ok(passed()))));
        assert_eq!(
            tiers.describe(),
            "whole (unavailable: user namespaces are denied), fenced (available)"
        );
        assert_eq!(serde_json::to_value(&tiers).unwrap()["tier"], "fenced");
        let none = SandboxTiers::from_support(&support(denied(), Some(denied())));
        assert_eq!(serde_json::to_value(&none).unwrap()["tier"], json!(null));
        let whole = none.tier(SandboxLevel::Full).unwrap();
        assert_eq!(whole.reason.as_deref(), Some("user namespaces are denied"));
    }
}
