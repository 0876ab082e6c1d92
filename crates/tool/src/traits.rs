//! What is known of a tool beside its shape. Each trait stands for itself; none is folded into another.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call::CallerType;

/// A word that is not one of those allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{word}`; use one of {allowed}")]
pub struct UnknownWord {
    /// What the word should name.
    pub what: &'static str,
    /// The word.
    pub word: String,
    /// The words there are.
    pub allowed: &'static str,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $what:literal, $allowed:literal {
        $($(#[$vdoc:meta])* $variant:ident = $word:literal $(| $alias:literal)*),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word $(, alias = $alias)*)] $variant),+ }

        impl $name {
            /// All of them, least first where there is an order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }
        impl FromStr for $name {
            type Err = UnknownWord;
            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                match word {
                    $($word $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err(UnknownWord { what: $what, word: word.to_owned(), allowed: $allowed }),
                }
            }
        }
    };
}

words! {
    /// Who may call at least (spec 0). An unknown word in a definition refuses the tool.
    Level: "permission level", "guest, user, admin, owner" {
        /// Anyone with a key.
        Guest = "guest",
        /// A known user.
        User = "user",
        /// An administrator.
        Admin = "admin",
        /// The owner of the installation.
        Owner = "owner",
    }
}
words! {
    /// How much harm a call can do (spec 1).
    Safety: "safety level", "safe, cautious, dangerous" {
        /// Runs at once.
        Safe = "safe",
        /// Runs, and says so in the log and the record.
        Cautious = "cautious" | "moderate",
        /// Needs an approval.
        Dangerous = "dangerous",
    }
}
words! {
    /// What a tool reaches for (spec 3's permissions).
    Scope: "scope", "network, filesystem, shell, compute" {
        /// The network.
        Network = "network",
        /// Files.
        Filesystem = "filesystem",
        /// Programs.
        Shell = "shell",
        /// Processor time worth counting.
        Compute = "compute",
    }
}
words! {
    /// A declared side effect (spec 3).
    Effect: "side effect",
    "read_only, local_exec, calls_llm, modifies_files, network_access, system_state" {
        /// Changes nothing.
        ReadOnly = "read_only",
        /// Runs code on this machine.
        LocalExec = "local_exec",
        /// Calls a language model.
        CallsLlm = "calls_llm",
        /// Writes files.
        ModifiesFiles = "modifies_files",
        /// Talks to the network.
        NetworkAccess = "network_access",
        /// Changes the system's state.
        SystemState = "system_state",
    }
}

/// Categories that every file may name: spec 3's, and spec 1's.
#[rustfmt::skip]
pub const CATEGORIES: &[&str] = &[
    "web", "file", "data", "code", "math", "system", "archive", "llm", "specialized",
    "introspection", "execution", "buffer", "diff", "xref", "clos", "packages",
];

/// Declared side effects, or none declared. Unknown counts as an effect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Effects {
    /// The source does not say.
    #[default]
    #[serde(rename = "unknown")]
    Unknown,
    /// What the source says. An empty list says: none.
    #[serde(rename = "declared")]
    Declared(Vec<Effect>),
}

impl Effects {
    /// Declared to change nothing.
    pub fn read_only() -> Self {
        Self::Declared(vec![Effect::ReadOnly])
    }

    /// Whether a call may change something. `read_only` beside an effect that changes things does not
    /// take that back: the worse word counts.
    pub fn any(&self) -> bool {
        let Self::Declared(effects) = self else { return true };
        let changes = |e: &Effect| {
            matches!(e, Effect::LocalExec | Effect::ModifiesFiles | Effect::SystemState)
        };
        let reads = effects.contains(&Effect::ReadOnly) || effects.is_empty();
        effects.iter().any(changes) || !reads
    }

    /// Whether `local_exec` is its only declared effect: what a call changes then is what its code is
    /// given access to.
    pub fn only_runs_code(&self) -> bool {
        let Self::Declared(effects) = self else { return false };
        let only = |e: &Effect| matches!(e, Effect::LocalExec | Effect::ReadOnly);
        effects.contains(&Effect::LocalExec) && effects.iter().all(only)
    }

    /// The word for effects that nobody declared.
    pub const UNKNOWN: &'static str = "unknown";

    /// The words of Toolkeep's own interfaces: what is declared, or [`Self::UNKNOWN`].
    pub fn words(&self) -> Vec<&'static str> {
        if self.is_unknown() { vec![Self::UNKNOWN] } else { self.declared() }
    }

    /// Spec 3's side effects: of its six values those that are declared, none where nothing is.
    pub fn declared(&self) -> Vec<&'static str> {
        match self {
            Self::Unknown => Vec::new(),
            Self::Declared(effects) => effects.iter().map(|e| e.as_str()).collect(),
        }
    }

    /// Whether nobody declared them.
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// All that policy may ask of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of its own, with its own name"
)]
pub struct Traits {
    /// The least level that may call it.
    pub level: Level,
    /// What it reaches for.
    pub scopes: Vec<Scope>,
    /// How much harm it can do.
    pub safety: Safety,
    /// Free words to group by, lower case.
    pub categories: Vec<String>,
    /// Its side effects.
    pub effects: Effects,
    /// Whether the same call may run twice with the effect of once.
    pub idempotent: bool,
    /// Whether it destroys what cannot be had back.
    pub destructive: bool,
    /// Who may call it: a model directly, or a program in a chain.
    pub callers: Vec<CallerType>,
    /// Its own time limit.
    pub timeout: Option<Duration>,
    /// The most bytes its arguments may have; absent: [`crate::Limits::ARGUMENTS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<usize>,
    /// Whether its source wants an approval of each call, whatever policy says of its scopes (spec 3's
    /// `requires_approval`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval: bool,
    /// The only folders that its source lets paths of a call lie beneath (spec 3's `allowed_paths`); no
    /// limit where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_paths: Option<Vec<String>>,
    /// Folders of this machine, absolute: a path of a call that does not begin with `/` begins in one of
    /// them, and a call that names no path uses no others. Absent: nobody knows.
    #[serde(skip)]
    pub base_folders: Option<Vec<String>>,
    /// Whether the operator trusts what the annotations of the definition say (MCP), beside what is
    /// here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted_annotations: bool,
}

impl Traits {
    /// What a call's arguments may have.
    pub fn limits(&self) -> crate::Limits {
        crate::Limits::arguments(self.arguments.unwrap_or_default())
    }
}

impl Default for Traits {
    /// What holds for a definition that says nothing: a guest's, safe, effects unknown, direct calls only.
    fn default() -> Self {
        Self {
            level: Level::Guest,
            scopes: Vec::new(),
            safety: Safety::Safe,
            categories: Vec::new(),
            effects: Effects::Unknown,
            idempotent: false,
            destructive: false,
            callers: vec![CallerType::Direct],
            timeout: None,
            arguments: None,
            approval: false,
            allowed_paths: None,
            base_folders: None,
            trusted_annotations: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Effect, Effects, Level, Safety};

    #[test]
    fn words_and_order() {
        assert!(Level::Guest < Level::User && Level::Admin < Level::Owner);
        assert_eq!("moderate".parse::<Safety>().unwrap(), Safety::Cautious);
        let error = "gest".parse::<Level>().unwrap_err().to_string();
        assert_eq!(error, "unknown permission level `gest`; use one of guest, user, admin, owner");
    }

    #[test]
    fn unknown_counts_as_an_effect() {
        assert!(Effects::Unknown.any());
        assert!(!Effects::read_only().any());
        assert!(!Effects::Declared(vec![]).any());
        assert!(Effects::Declared(vec![Effect::NetworkAccess]).any());
        assert!(!Effects::Declared(vec![Effect::ReadOnly, Effect::NetworkAccess]).any());
        assert!(Effects::Declared(vec![Effect::ReadOnly, Effect::ModifiesFiles]).any());
    }

    #[test]
    fn code_with_another_effect_does_more_than_run() {
        let declared = |effects: &[Effect]| Effects::Declared(effects.to_vec()).only_runs_code();
        assert!(declared(&[Effect::LocalExec]) && declared(&[Effect::LocalExec, Effect::ReadOnly]));
        assert!(
            !Effects::Unknown.only_runs_code() && !declared(&[]) && !declared(&[Effect::ReadOnly])
        );
        let others =
            Effect::ALL.iter().filter(|e| !matches!(e, Effect::LocalExec | Effect::ReadOnly));
        for other in others {
            assert!(!declared(&[Effect::LocalExec, *other]), "{other}");
        }
    }

    /// Spec 3 has six values; Toolkeep's own interfaces have a seventh word for none of them.
    #[test]
    fn unknown_effects_have_a_word_of_their_own_and_none_of_spec_3s() {
        let reads = Effects::read_only();
        assert_eq!(
            (Effects::Unknown.words(), Effects::Unknown.declared()),
            (vec!["unknown"], vec![])
        );
        assert_eq!((reads.words(), reads.declared()), (vec!["read_only"], vec!["read_only"]));
        assert_eq!(Effects::Declared(vec![]).words(), [""; 0], "declared to be none is known");
        assert!("unknown".parse::<Effect>().is_err());
    }
}
