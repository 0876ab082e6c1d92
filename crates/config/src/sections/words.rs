//! Words that several sections have.

use tool::{Safety, Trust};

use crate::parsers::words;

words! {
    /// How far a source is trusted not to change its tools.
    pub(crate) fn trust as "TrustWord" -> Trust {
        /// Changes are taken, pinned anew and recorded.
        "full" = Trust::Full,
        /// Tools are taken at first sight; a changed tool is held back.
        "first_use" = Trust::FirstUse,
        /// No tool is active until someone has looked at it.
        "review" = Trust::Review,
    }
}

words! {
    /// How much harm a call can do.
    pub(crate) fn safety as "SafetyWord" -> Safety {
        /// What runs at once.
        "safe" = Safety::Safe,
        /// What runs, and says so in the log and the record.
        "cautious" = Safety::Cautious,
        /// The same as `cautious`.
        "moderate" = Safety::Cautious,
        /// What needs an approval.
        "dangerous" = Safety::Dangerous,
    }
}
