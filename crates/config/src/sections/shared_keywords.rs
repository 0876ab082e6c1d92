//! Keywords that several sections use.

use tool::{SafetyLevel, SourceTrust};

use crate::value_parsers::keywords;

keywords! {
    /// Whether changed tool definitions are accepted.
    pub(crate) fn source_trust as "TrustWord" -> SourceTrust {
        /// Changed definitions are accepted, pinned again and recorded.
        "full" = SourceTrust::Full,
        /// New tools are accepted; a tool whose definition changes is blocked until an operator approves it.
        "first_use" = SourceTrust::FirstUse,
        /// Every tool is blocked until an operator approves it.
        "review" = SourceTrust::Review,
    }
}

keywords! {
    /// How much harm a call can do.
    pub(crate) fn safety_level as "SafetyWord" -> SafetyLevel {
        /// The call runs without a warning.
        "safe" = SafetyLevel::Safe,
        /// The call runs, with a warning in the log and in the record.
        "cautious" = SafetyLevel::Cautious,
        /// A synonym of `cautious`.
        "moderate" = SafetyLevel::Cautious,
        /// The call needs an approval.
        "dangerous" = SafetyLevel::Dangerous,
    }
}
