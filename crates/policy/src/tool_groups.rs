//! Built-in groups of tools, and their bit mask over names and traits.
//!
//! A built-in group of the research registry holds the listed names and every tool whose traits
//! match. A name proves nothing by itself, so a group is never smaller than its traits. Tools that
//! only read files or data are in `read`; tools that compute, run code or use the network are in
//! other groups, although they change nothing.

use tool::{AccessScope, SideEffect, SideEffects, ToolTraits};

/// Bit mask of groups that traits decide.
pub(crate) type GroupMask = u16;

/// Declared to change nothing and to use files at most.
pub(crate) const GROUP_READ: GroupMask = 1;
/// May change state, or declares no effects.
pub(crate) const GROUP_WRITE: GroupMask = 1 << 1;
const GROUP_CODE: GroupMask = 1 << 2;
const GROUP_DATA: GroupMask = 1 << 3;
/// Connects to the network.
pub(crate) const GROUP_WEB: GroupMask = 1 << 4;
const GROUP_MATH: GroupMask = 1 << 5;
/// May change files itself: its effects exceed `local_exec`, or are not declared. Part of
/// [`GROUP_WRITE`].
pub(crate) const GROUP_FILES: GroupMask = 1 << 6;
/// Holds every tool there is.
pub(crate) const GROUP_ALL: GroupMask = 1 << 15;

/// A built-in group of the research registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BuiltinGroup {
    pub(crate) name: &'static str,
    pub(crate) tool_names: &'static [&'static str],
    pub(crate) mask: GroupMask,
}

/// All built-in groups with their listed names; `web_research` was added to `web` later.
pub(crate) const BUILTIN_GROUPS: &[BuiltinGroup] = &[
    BuiltinGroup {
        name: "read",
        tool_names: &["list_dir", "read_file", "search_files", "web_fetch"],
        mask: GROUP_READ,
    },
    BuiltinGroup {
        name: "write",
        tool_names: &["write_file", "edit_file", "run_shell"],
        mask: GROUP_WRITE | GROUP_FILES,
    },
    BuiltinGroup {
        name: "code",
        tool_names: &[
            "list_dir",
            "read_file",
            "search_files",
            "write_file",
            "edit_file",
            "run_shell",
        ],
        mask: GROUP_CODE,
    },
    BuiltinGroup {
        name: "data",
        tool_names: &["query_db", "read_file", "search_files"],
        mask: GROUP_DATA,
    },
    BuiltinGroup {
        name: "web",
        tool_names: &["web_fetch", "web_search", "web_research"],
        mask: GROUP_WEB,
    },
    BuiltinGroup { name: "math", tool_names: &["calculate", "plot"], mask: GROUP_MATH },
    BuiltinGroup { name: "all", tool_names: &[], mask: GROUP_ALL },
];

/// Finds the built-in group of this name.
pub(crate) fn find_builtin_group(name: &str) -> Option<&'static BuiltinGroup> {
    BUILTIN_GROUPS.iter().find(|group| group.name == name)
}

/// Returns the built-in groups of a tool by its traits and its name.
pub(crate) fn group_mask(name: &str, traits: &ToolTraits) -> GroupMask {
    let named = |group: &&BuiltinGroup| group.tool_names.contains(&name);
    let marks = BUILTIN_GROUPS.iter().filter(named).fold(0, |marks, group| marks | group.mask);
    // A listed reader that declares no effect on this machine counts as one.
    let reads = marks & GROUP_READ != 0 && is_harmless(traits);
    let by_traits = mask_from_traits(traits);
    marks | if reads { by_traits & !(GROUP_WRITE | GROUP_FILES) } else { by_traits }
}

/// Returns true if all effects are declared, and none of them changes this machine.
fn is_harmless(traits: &ToolTraits) -> bool {
    let harmless = |effect: &SideEffect| {
        matches!(effect, SideEffect::ReadOnly | SideEffect::NetworkAccess | SideEffect::CallsLlm)
    };
    match &traits.effects {
        SideEffects::Declared(effects) => !traits.is_destructive && effects.iter().all(harmless),
        SideEffects::Unknown => false,
    }
}

fn mask_from_traits(traits: &ToolTraits) -> GroupMask {
    let category = |word: &str| traits.categories.iter().any(|category| category == word);
    let effect = |effect: SideEffect| match &traits.effects {
        SideEffects::Declared(effects) => effects.contains(&effect),
        SideEffects::Unknown => false,
    };
    let scope = |scope: AccessScope| traits.scopes.contains(&scope);
    let changes = traits.effects.may_change_state() || traits.is_destructive;
    let is_web =
        category("web") || scope(AccessScope::Network) || effect(SideEffect::NetworkAccess);
    let only_files = traits.scopes.iter().all(|scope| *scope == AccessScope::Filesystem);
    [
        (GROUP_READ, !changes && !is_web && only_files),
        (GROUP_WRITE, changes),
        (GROUP_FILES, traits.effects.may_change_state() && !traits.effects.only_runs_code()),
        (
            GROUP_CODE,
            category("code") || scope(AccessScope::Shell) || effect(SideEffect::LocalExec),
        ),
        (GROUP_DATA, category("data")),
        (GROUP_WEB, is_web),
        (GROUP_MATH, category("math")),
        (GROUP_ALL, true),
    ]
    .iter()
    .filter(|(_, is)| *is)
    .fold(0, |marks, (mark, _)| marks | mark)
}
