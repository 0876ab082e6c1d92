//! Groups of tools: spec 3's, and the operator's own.
//!
//! A group of spec 3 holds the names the spec gives it and every tool whose traits match. A name proves
//! nothing by itself, so a group is never smaller than its traits. What only reads files or data is in
//! `read`; what computes, runs code or reaches the network is in other groups, although it changes nothing.

use tool::{Effect, Effects, Scope, Traits};

/// One bit for each group that traits decide.
pub(crate) type Marks = u16;

/// Declared to change nothing, and to reach for files at most.
pub(crate) const READ: Marks = 1;
/// May change something, or does not say.
pub(crate) const WRITE: Marks = 1 << 1;
const CODE: Marks = 1 << 2;
const DATA: Marks = 1 << 3;
/// Reaches the network.
pub(crate) const WEB: Marks = 1 << 4;
const MATH: Marks = 1 << 5;
/// May change files by itself: its effects are more than `local_exec`, or not declared. Part of [`WRITE`].
pub(crate) const FILES: Marks = 1 << 6;
/// Every tool.
const ALL: Marks = 1 << 15;

/// A group of spec 3.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) names: &'static [&'static str],
    pub(crate) marks: Marks,
}

/// All of them, with the spec's names; `web_research` came to `web` later.
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

/// The group of this name.
pub(crate) fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|group| group.name == name)
}

/// The groups of spec 3 that a tool is in by its traits and by its name.
pub(crate) fn marks(name: &str, traits: &Traits) -> Marks {
    let named = |group: &&Known| group.names.contains(&name);
    let marks = KNOWN.iter().filter(named).fold(0, |marks, group| marks | group.marks);
    // One that the spec names among those that read, and that declares no effect on this machine, reads.
    let reads = marks & READ != 0 && is_harmless(traits);
    let by_traits = of_traits(traits);
    marks | if reads { by_traits & !(WRITE | FILES) } else { by_traits }
}

/// Whether all effects are declared, and none of them changes this machine.
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
