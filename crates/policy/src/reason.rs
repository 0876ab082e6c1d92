//! Why it was decided as it was.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($variant:ident = $word:literal, $text:literal;)+) => {
        /// A reason code: stands in records and explanations.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Reason { $(#[doc = $text] #[serde(rename = $word)] $variant),+ }

        impl Reason {
            /// The code.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
            /// The same in words.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

reasons! {
    Allowed = "allowed", "nothing stands against it";
    Caution = "caution", "allowed, and to be watched";
    OtherOrg = "other_org", "the tool belongs to another organisation";
    DenyRule = "deny_rule", "a deny rule names the tool";
    NotAllowed = "not_allowed", "no allow rule names the tool";
    Level = "level", "the caller's permission level is too low";
    PersonaModules = "persona_modules", "the persona does not have the tool's source";
    SafetyLimit = "safety_limit", "the tool is above the safety limit";
    Category = "category", "the tool is in none of the allowed categories";
    CallerType = "caller_type", "the tool may not be called in this way";
    Dangerous = "dangerous", "the tool is dangerous and needs an approval";
    Destructive = "destructive", "the tool is destructive and needs an approval";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
