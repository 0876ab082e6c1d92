//! Personas of the store that name what is not there. The store is read beside a server, and not changed.

use std::collections::BTreeSet;
use std::path::Path;

use identity::Personas;
use store::SqliteStore;
use tool::{Problem, node};

use cli::store::rejected;
use cli_core::data::DataDir;
use tool::nearest_name;

/// Names of modules that match no source, and a default persona that is not there: warnings, since either may be yet to
/// come.
pub(super) fn warnings(data: &Path, sources: &BTreeSet<String>) -> Vec<Problem> {
    let (personas, default) = read(data).unwrap_or_default();
    let mut found = Vec::new();
    for (persona, _) in personas.all() {
        let modules = persona.allowed_modules.iter().flatten();
        // Nodes register themselves.
        let is_known =
            |module: &&String| sources.contains(*module) || module.starts_with(node::PREFIX);
        let unknown = modules.filter(|module| !is_known(module));
        found.extend(unknown.map(|module| unknown_module(&persona.name, module, sources)));
    }
    if let Some(name) = default.filter(|name| personas.get(name).is_none()) {
        let message = format!(
            "the default persona is `{}`, which is not there: who has no persona may use no source",
            name.escape_debug()
        );
        let fix =
            "`toolkeep persona list` shows them; `toolkeep persona default NAME` chooses another";
        found.push(Problem::new(Personas::STORE_DEFAULT, message).fix(fix));
    }
    found
}

fn unknown_module(persona: &str, module: &str, sources: &BTreeSet<String>) -> Problem {
    let all: Vec<_> = sources.iter().map(String::as_str).collect();
    let message = format!(
        "the persona `{}` names the module `{}`, and no source is called so now: it allows nothing",
        persona.escape_debug(),
        module.escape_debug()
    );
    let set = format!("`toolkeep persona set {} --modules …` corrects it", persona.escape_debug());
    let fix = match nearest_name(module, all.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? {set}"),
        None => format!("{set}; if the source is yet to come, leave it"),
    };
    Problem::new(Personas::store_key(persona), message).fix(fix)
}

/// The personas, and the name of the default one. Nothing where there is no store, or it cannot be read: that is for
/// `toolkeep doctor` to say. Rows that do not count are left out.
fn read(data: &Path) -> Option<(Personas, Option<String>)> {
    let data = DataDir::at(data.to_owned());
    let path = data.store();
    if !path.exists() {
        return None;
    }
    let unfit: Vec<_> = rejected(&data).ok()?.into_iter().map(|row| row.key).collect();
    let rows = |prefix| {
        let mut rows = SqliteStore::read_rows(&path, prefix).ok()?;
        rows.retain(|(key, _)| !unfit.contains(key));
        Some(rows)
    };
    let personas = rows(Personas::STORE_PREFIX)?;
    let pairs = personas.iter().map(|(key, text)| (key.as_str(), text.as_ref()));
    let (personas, _) = Personas::read(pairs);
    let default = rows(Personas::STORE_DEFAULT)?;
    let default = default.into_iter().find(|(key, _)| key == Personas::STORE_DEFAULT);
    let default = default.map(|(_, text)| String::from_utf8_lossy(&text).into_owned());
    Some((personas, default))
}
