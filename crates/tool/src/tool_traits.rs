//! Defines tool traits: permission level, scopes, safety, side effects and limits that policy
//! decides on. Each trait is independent of the others.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call::CallerType;

/// Error for a value outside a fixed set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {field} `{value}`; use one of {allowed}")]
pub struct UnknownValueError {
    /// Name of the field.
    pub field: &'static str,
    /// Value that is not allowed.
    pub value: String,
    /// Values that are allowed.
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
            /// All values, in ascending order if there is one.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the word as it is serialised.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }
        impl FromStr for $name {
            type Err = UnknownValueError;
            fn from_str(word: &str) -> Result<Self, UnknownValueError> {
                match word {
                    $($word $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err(UnknownValueError { field: $what, value: word.to_owned(), allowed: $allowed }),
                }
            }
        }
    };
}

words! {
    /// Minimum permission level of a caller. An unknown word in a definition rejects the tool.
    PermissionLevel: "permission level", "guest, user, admin, owner" {
        /// Anyone with a key.
        Guest = "guest",
        /// A user with a key.
        User = "user",
        /// An administrator of the organisation.
        Admin = "admin",
        /// The owner of the installation.
        Owner = "owner",
    }
}
words! {
    /// Safety level: how much harm a call can do.
    SafetyLevel: "safety level", "safe, cautious, dangerous" {
        /// Runs without an approval.
        Safe = "safe",
        /// Runs with an entry in the log and the record.
        Cautious = "cautious" | "moderate",
        /// Needs an approval first.
        Dangerous = "dangerous",
    }
}
words! {
    /// Access scope of a tool: the resources that it uses.
    AccessScope: "scope", "network, filesystem, shell, compute" {
        /// Connects to the network.
        Network = "network",
        /// Reads or writes files.
        Filesystem = "filesystem",
        /// Runs other programs or shells.
        Shell = "shell",
        /// Uses significant CPU time.
        Compute = "compute",
    }
}
words! {
    /// A declared side effect.
    SideEffect: "side effect",
    "read_only, local_exec, calls_llm, modifies_files, network_access, system_state" {
        /// Does not change state.
        ReadOnly = "read_only",
        /// Runs code on this machine.
        LocalExec = "local_exec",
        /// Calls a language model.
        CallsLlm = "calls_llm",
        /// Creates or changes files.
        ModifiesFiles = "modifies_files",
        /// Talks to the network.
        NetworkAccess = "network_access",
        /// Changes the system's state.
        SystemState = "system_state",
    }
}

/// Categories that every tool file may use: those of the research registry and of the safety-level
/// library.
#[rustfmt::skip]
pub const CATEGORIES: &[&str] = &[
    "web", "file", "data", "code", "math", "system", "archive", "llm", "specialized",
    "introspection", "execution", "buffer", "diff", "xref", "clos", "packages",
];

/// Declared side effects of a tool, or unknown. Unknown counts as an effect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SideEffects {
    /// The source declares nothing.
    #[default]
    #[serde(rename = "unknown")]
    Unknown,
    /// Effects that the source declares. An empty list declares none.
    #[serde(rename = "declared")]
    Declared(Vec<SideEffect>),
}

impl SideEffects {
    /// Creates a declaration without changes of state.
    pub fn read_only() -> Self {
        Self::Declared(vec![SideEffect::ReadOnly])
    }

    /// Returns true if a call may change state. `read_only` beside an effect that changes state is
    /// ignored: the stronger declaration counts.
    pub fn may_change_state(&self) -> bool {
        let Self::Declared(effects) = self else { return true };
        let changes = |e: &SideEffect| {
            matches!(e, SideEffect::LocalExec | SideEffect::ModifiesFiles | SideEffect::SystemState)
        };
        let reads = effects.contains(&SideEffect::ReadOnly) || effects.is_empty();
        effects.iter().any(changes) || !reads
    }

    /// Returns true if `local_exec` is its only declared effect: a call can then change only what
    /// its code has access to.
    pub fn only_runs_code(&self) -> bool {
        let Self::Declared(effects) = self else { return false };
        let only = |e: &SideEffect| matches!(e, SideEffect::LocalExec | SideEffect::ReadOnly);
        effects.contains(&SideEffect::LocalExec) && effects.iter().all(only)
    }

    /// Name for undeclared effects.
    pub const UNKNOWN_NAME: &'static str = "unknown";

    /// Returns the names of Toolkeep's own interfaces: the declared effects, or
    /// [`Self::UNKNOWN_NAME`].
    pub fn effect_names(&self) -> Vec<&'static str> {
        if self.is_unknown() { vec![Self::UNKNOWN_NAME] } else { self.declared_names() }
    }

    /// Returns the declared effects in the research registry's terms, empty if none are declared.
    pub fn declared_names(&self) -> Vec<&'static str> {
        match self {
            Self::Unknown => Vec::new(),
            Self::Declared(effects) => effects.iter().map(|e| e.as_str()).collect(),
        }
    }

    /// Returns true if no effects are declared.
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// Properties of a tool that policy decides on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of its own, with its own name"
)]
pub struct ToolTraits {
    /// Minimum permission level of a caller.
    #[serde(rename = "level")]
    pub min_level: PermissionLevel,
    /// Access scopes of the tool.
    pub scopes: Vec<AccessScope>,
    /// Safety level of the tool.
    pub safety: SafetyLevel,
    /// Categories in lower case.
    pub categories: Vec<String>,
    /// Side effects of the tool.
    pub effects: SideEffects,
    /// True if repeating a call has no further effect.
    #[serde(rename = "idempotent")]
    pub is_idempotent: bool,
    /// True if the tool destroys data irreversibly.
    #[serde(rename = "destructive")]
    pub is_destructive: bool,
    /// Allowed caller types: a model directly, or a program in a chain.
    #[serde(rename = "callers")]
    pub allowed_callers: Vec<CallerType>,
    /// Time limit of the tool itself.
    pub timeout: Option<Duration>,
    /// Maximum size of its arguments in bytes; absent: [`crate::JsonLimits::ARGUMENTS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "arguments")]
    pub max_argument_bytes: Option<usize>,
    /// True if its source requires an approval of each call, whatever policy says of its scopes
    /// (`requires_approval` in tool files).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "approval")]
    pub requires_approval: bool,
    /// Folders beneath which all paths of a call must lie (`allowed_paths` in tool files); no limit
    /// if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_paths: Option<Vec<String>>,
    /// Absolute folders of this machine to which relative paths of a call refer; a call that names
    /// no path uses no others. Absent: unknown.
    #[serde(skip)]
    pub base_folders: Option<Vec<String>>,
    /// True if the operator also trusts the annotations of the MCP definition.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted_annotations: bool,
}

impl ToolTraits {
    /// Returns the limits of a call's arguments.
    pub fn argument_limits(&self) -> crate::JsonLimits {
        crate::JsonLimits::for_arguments(self.max_argument_bytes.unwrap_or_default())
    }
}

impl Default for ToolTraits {
    /// Returns the traits of a definition that declares nothing: guest, safe, effects unknown,
    /// direct calls only.
    fn default() -> Self {
        Self {
            min_level: PermissionLevel::Guest,
            scopes: Vec::new(),
            safety: SafetyLevel::Safe,
            categories: Vec::new(),
            effects: SideEffects::Unknown,
            is_idempotent: false,
            is_destructive: false,
            allowed_callers: vec![CallerType::Direct],
            timeout: None,
            max_argument_bytes: None,
            requires_approval: false,
            allowed_paths: None,
            base_folders: None,
            trusted_annotations: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PermissionLevel, SafetyLevel, SideEffect, SideEffects};

    #[test]
    fn words_and_order() {
        assert!(
            PermissionLevel::Guest < PermissionLevel::User
                && PermissionLevel::Admin < PermissionLevel::Owner
        );
        assert_eq!("moderate".parse::<SafetyLevel>().unwrap(), SafetyLevel::Cautious);
        let error = "gest".parse::<PermissionLevel>().unwrap_err().to_string();
        assert_eq!(error, "unknown permission level `gest`; use one of guest, user, admin, owner");
    }

    #[test]
    fn unknown_counts_as_an_effect() {
        assert!(SideEffects::Unknown.may_change_state());
        assert!(!SideEffects::read_only().may_change_state());
        assert!(!SideEffects::Declared(vec![]).may_change_state());
        assert!(SideEffects::Declared(vec![SideEffect::NetworkAccess]).may_change_state());
        assert!(
            !SideEffects::Declared(vec![SideEffect::ReadOnly, SideEffect::NetworkAccess])
                .may_change_state()
        );
        assert!(
            SideEffects::Declared(vec![SideEffect::ReadOnly, SideEffect::ModifiesFiles])
                .may_change_state()
        );
    }

    #[test]
    fn code_with_another_effect_does_more_than_run() {
        let declared =
            |effects: &[SideEffect]| SideEffects::Declared(effects.to_vec()).only_runs_code();
        assert!(
            declared(&[SideEffect::LocalExec])
                && declared(&[SideEffect::LocalExec, SideEffect::ReadOnly])
        );
        assert!(
            !SideEffects::Unknown.only_runs_code()
                && !declared(&[])
                && !declared(&[SideEffect::ReadOnly])
        );
        let others = SideEffect::ALL
            .iter()
            .filter(|e| !matches!(e, SideEffect::LocalExec | SideEffect::ReadOnly));
        for other in others {
            assert!(!declared(&[SideEffect::LocalExec, *other]), "{other}");
        }
    }

    /// The research registry has six values; Toolkeep's own interfaces have a seventh word for none
    /// of them.
    #[test]
    fn unknown_effects_have_a_word_of_their_own_and_none_of_the_research_registrys() {
        let reads = SideEffects::read_only();
        assert_eq!(
            (SideEffects::Unknown.effect_names(), SideEffects::Unknown.declared_names()),
            (vec!["unknown"], vec![])
        );
        assert_eq!(
            (reads.effect_names(), reads.declared_names()),
            (vec!["read_only"], vec!["read_only"])
        );
        assert_eq!(
            SideEffects::Declared(vec![]).effect_names(),
            [""; 0],
            "declared to be none is known"
        );
        assert!("unknown".parse::<SideEffect>().is_err());
    }
}
