//! Checks that the stored personas name existing sources. The store is read while a server may run,
//! and never changed.

use std::collections::BTreeSet;
use std::path::Path;

use identity::PersonaSet;
use store::SqliteStore;
use tool::{Problem, node_registry};

use cli::store::rejected_rows;
use cli_core::data_dir::DataDir;
use tool::find_nearest_name;

/// Returns warnings for modules that match no source and for a missing default persona; both may be
/// added later.
pub(super) fn persona_warnings(data_dir: &Path, sources: &BTreeSet<String>) -> Vec<Problem> {
    let (personas, default) = read_personas(data_dir).unwrap_or_default();
    let mut problems = Vec::new();
    for (persona, _) in personas.iter_with_default() {
        let modules = persona.allowed_modules.iter().flatten();
        // Nodes register themselves.
        let is_known = |module: &&String| {
            sources.contains(*module) || module.starts_with(node_registry::NODE_SOURCE_PREFIX)
        };
        let unknown = modules.filter(|module| !is_known(module));
        problems.extend(unknown.map(|module| unknown_module(&persona.name, module, sources)));
    }
    if let Some(name) = default.filter(|name| personas.find_persona(name).is_none()) {
        let message = format!(
            "the default persona `{}` does not exist: callers without a persona may use no source",
            name.escape_debug()
        );
        let fix = "run `toolkeep persona list` and choose one with `toolkeep persona default NAME`";
        problems.push(Problem::new(PersonaSet::STORE_DEFAULT_KEY, message).with_help(fix));
    }
    problems
}

fn unknown_module(persona: &str, module: &str, sources: &BTreeSet<String>) -> Problem {
    let all: Vec<_> = sources.iter().map(String::as_str).collect();
    let message = format!(
        "the persona `{}` names the module `{}`, but no source has this name, so it allows nothing",
        persona.escape_debug(),
        module.escape_debug()
    );
    let set =
        format!("correct it with `toolkeep persona set {} --modules …`", persona.escape_debug());
    let fix = match find_nearest_name(module, all.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? {set}"),
        None => format!("{set}; ignore this if you add the source later"),
    };
    Problem::new(PersonaSet::store_key(persona), message).with_help(fix)
}

/// Reads the personas and the name of the default one. Returns `None` without a readable store,
/// which `toolkeep doctor` reports. Rejected rows are left out.
fn read_personas(data: &Path) -> Option<(PersonaSet, Option<String>)> {
    let data = DataDir::new(data.to_owned());
    let path = data.store_file();
    if !path.exists() {
        return None;
    }
    let rejected_keys: Vec<_> = rejected_rows(&data).ok()?.into_iter().map(|row| row.key).collect();
    let rows = |prefix| {
        let mut rows = SqliteStore::read_rows(&path, prefix).ok()?;
        rows.retain(|(key, _)| !rejected_keys.contains(key));
        Some(rows)
    };
    let personas = rows(PersonaSet::STORE_PREFIX)?;
    let pairs = personas.iter().map(|(key, text)| (key.as_str(), text.as_ref()));
    let (personas, _) = PersonaSet::from_rows(pairs);
    let default = rows(PersonaSet::STORE_DEFAULT_KEY)?;
    let default = default.into_iter().find(|(key, _)| key == PersonaSet::STORE_DEFAULT_KEY);
    let default = default.map(|(_, text)| String::from_utf8_lossy(&text).into_owned());
    Some((personas, default))
}
