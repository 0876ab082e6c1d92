//! Built-in groups of tools, and their bit mask over names and traits.
//!
//! A built-in group of the tool-file registry holds the listed names and every tool whose traits
//! match. A name proves nothing by itself, so a group is never smaller than its traits. Tools that
//! only read files or data are in `read`; tools that compute, run code or use the network are in
//! other groups, although they change nothing.

use tool::{Effect, Effects, Scope, Traits};

/// Bit mask of groups that traits decide.
pub(crate) type Marks = u16;

/// Declared to change nothing and to use files at most.
pub(crate) const READ: Marks = 1;
/// May change state, or declares no effects.
pub(crate) const WRITE: Marks = 1 << 1;
const CODE: Marks = 1 << 2;
const DATA: Marks = 1 << 3;
/// Connects to the network.
pub(crate) const WEB: Marks = 1 << 4;
const MATH: Marks = 1 << 5;
/// May change files itself: its effects exceed `local_exec`, or are not declared. Part of
/// [`WRITE`].
pub(crate) const FILES: Marks = 1 << 6;
/// Holds every tool there is.
const ALL: Marks = 1 << 15;

/// A built-in group of the tool-file registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) names: &'static [&'static str],
    pub(crate) marks: Marks,
}

/// All built-in groups with their listed names; `web_research` was added to `web` later.
pub(crate) const KNOWN: &[Known] = &[
    Known {
        name: "read",
        names: &["list_dir", "read_file", "search_files", "web_fetch"],
        marks: READ,
    },
    Known { name: "write", names: &["write_file", "edit_file", "run_shell"], marks: WRITE | FILES },
    Known {
        name: "code",
        names: &["list_dir", "read_file", "search_files", "write_file", "edit_file", "run_shell"],
        marks: CODE,
    },
    Known { name: "data", names: &["query_db", "read_file", "search_files"], marks: DATA },
    Known { name: "web", names: &["web_fetch", "web_search", "web_research"], marks: WEB },
    Known { name: "math", names: &["calculate", "plot"], marks: MATH },
    Known { name: "all", names: &[], marks: ALL },
];

/// Finds the built-in group of this name.
pub(crate) fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|group| group.name == name)
}

/// Returns the built-in groups of a tool by its traits and its name.
pub(crate) fn marks(name: &str, traits: &Traits) -> Marks {
    let named = |group: &&Known| group.names.contains(&name);
    let marks = KNOWN.iter().filter(named).fold(0, |marks, group| marks | group.marks);
    // A listed reader that declares no effect on this machine counts as one.
    let reads = marks & READ != 0 && is_harmless(traits);
    let by_traits = of_traits(traits);
    marks | if reads { by_traits & !(WRITE | FILES) } else { by_traits }
}

/// Returns true if all effects are declared, and none of them changes this machine.
fn is_harmless(traits: &Traits) -> bool {
    let harmless = |effect: &Effect| {
        matches!(effect, Effect::ReadOnly | Effect::NetworkAccess | Effect::CallsLlm)
    };
    match &traits.effects {
        Effects::Declared(effects) => !traits.destructive && effects.iter().all(harmless),
        Effects::Unknown => false,
    }
}

fn of_traits(traits: &Traits) -> Marks {
    let category = |word: &str| traits.categories.iter().any(|category| category == word);
    let effect = |effect: Effect| match &traits.effects {
        Effects::Declared(effects) => effects.contains(&effect),
        Effects::Unknown => false,
    };
    let scope = |scope: Scope| traits.scopes.contains(&scope);
    let changes = traits.effects.any() || traits.destructive;
    let is_web = category("web") || scope(Scope::Network) || effect(Effect::NetworkAccess);
    let only_files = traits.scopes.iter().all(|scope| *scope == Scope::Filesystem);
    [
        (READ, !changes && !is_web && only_files),
        (WRITE, changes),
        (FILES, traits.effects.any() && !traits.effects.only_runs_code()),
        (CODE, category("code") || scope(Scope::Shell) || effect(Effect::LocalExec)),
        (DATA, category("data")),
        (WEB, is_web),
        (MATH, category("math")),
        (ALL, true),
    ]
    .iter()
    .filter(|(_, is)| *is)
    .fold(0, |marks, (mark, _)| marks | mark)
}
