//! Finds the tool names in a program without running it, so that a starting server can wait for
//! their sources.

use std::collections::BTreeSet;

use serde_json::Value;
use tool::CallId;

use crate::Programs;
use crate::program_functions::{RESERVED_NAMES, python_identifier};
use crate::program_state::Checkpoint;
use crate::program_store::ProgramKey;

/// Maximum number of names in a script or in its steps.
const MAX_TOOL_NAMES: usize = 1_000;
/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 200;
/// Functions of Python in addition to [`RESERVED_NAMES`].
const PYTHON_KEYWORDS: &[&str] = &[
    "bin",
    "bool",
    "bytes",
    "chr",
    "dir",
    "divmod",
    "enumerate",
    "filter",
    "format",
    "frozenset",
    "getattr",
    "hasattr",
    "hash",
    "hex",
    "isinstance",
    "iter",
    "map",
    "next",
    "oct",
    "ord",
    "pow",
    "repr",
    "reversed",
    "slice",
    "tuple",
    "zip",
];

/// Returns the tool names in a script, or in a list of steps as JSON: functions that it calls and
/// does not define, and first arguments of `TOOL` and `CALL`. The result may contain names that are
/// not tools.
pub fn requested_tools(text: &str) -> BTreeSet<String> {
    if let Ok(Value::Array(steps)) = serde_json::from_str(text) {
        let names = steps.iter().filter_map(|step| step.get("tool").and_then(Value::as_str));
        return names
            .filter(|name| name.len() <= MAX_NAME_BYTES)
            .map(str::to_owned)
            .take(MAX_TOOL_NAMES)
            .collect();
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let (mut called, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for (at, _) in text.match_indices('(') {
        let before = text.get(..at).unwrap_or_default().trim_end();
        let start = before.trim_end_matches(is_part);
        let name = before.strip_prefix(start).unwrap_or_default();
        let after = text.get(at + 1..).unwrap_or_default();
        if name.is_empty() || name.len() > MAX_NAME_BYTES || start.ends_with('.') {
            continue;
        }
        if matches!(name, "TOOL" | "CALL") {
            called.extend(quoted_string(after).map(str::to_owned));
        } else if start.trim_end().ends_with("def") {
            defined.insert(name);
        } else if !RESERVED_NAMES.contains(&name) && !PYTHON_KEYWORDS.contains(&name) {
            called.insert(name.to_owned());
        }
        if called.len() >= MAX_TOOL_NAMES {
            break;
        }
    }
    called.retain(|name| !defined.contains(name.as_str()));
    called
}

/// Returns the quoted string at the start of `code`.
fn quoted_string(code: &str) -> Option<&str> {
    let code = code.trim_start();
    let quote = code.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let (text, _) = code.get(1..)?.split_once(quote)?;
    (text.len() <= MAX_NAME_BYTES).then_some(text)
}

/// Returns whether programs can call a tool by this name.
pub fn matches_tool(tool: &str, name: &str) -> bool {
    tool == name || python_identifier(tool) == name
}

/// Returns whether a name may belong to a tool of this source.
pub fn matches_source(source: &str, name: &str) -> bool {
    let has_prefix = |source: &str| {
        name.strip_prefix(source).is_some_and(|rest| rest.len() > 1 && rest.starts_with(['.', '_']))
    };
    has_prefix(source) || has_prefix(&python_identifier(source))
}

impl Programs {
    /// Returns the names of the tools that an unfinished stored program may call. `id` is its ID or
    /// that of a call it waits for.
    pub async fn tools_of_stored_program(&self, id: CallId) -> BTreeSet<String> {
        let rows: Vec<ProgramKey> = {
            let index = self.lock_index();
            index
                .program_waiting_for(id)
                .into_iter()
                .chain(index.unfinished_programs().into_iter().filter(|row| row.id == id))
                .collect()
        };
        let mut names = BTreeSet::new();
        for row in rows {
            let Ok(Some(stored)) = self.load_program(&row).await else { continue };
            match &stored.program.checkpoint {
                Some(Checkpoint::Python { functions, .. }) => {
                    names.extend(functions.iter().cloned());
                }
                Some(Checkpoint::Waves(wave_state)) => {
                    names.extend(wave_state.plan.steps.iter().map(|step| step.function.clone()));
                }
                None => names.extend(requested_tools(&stored.program.code)),
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::{matches_source, matches_tool, requested_tools};

    fn names(text: &str) -> Vec<String> {
        requested_tools(text).into_iter().collect()
    }

    #[test]
    fn the_tools_of_a_script_are_found_without_running_it() {
        let script = "def twice(x):\n    return x * 2\n\n\
            for i, row in enumerate(files_list(path='a')):\n    print(twice(len(row)).bit_length())\n\
            TOOL('git.status', path=row)\nx = CALL( \"web.get\", 1)\nsolve (x)\n";
        assert_eq!(names(script), ["files_list", "git.status", "solve", "web.get"]);
        assert!(names("TOOL(name)\n1 + (2)\nTOOL('open").is_empty());
    }

    #[test]
    fn the_tools_of_steps_are_those_that_they_name() {
        let steps =
            r#"[{"id": "a", "tool": "git.status"}, {"id": "b", "tool": "echo"}, {"id": "c"}]"#;
        assert_eq!(names(steps), ["echo", "git.status"]);
    }

    #[test]
    fn a_name_fits_its_tool_and_its_source_and_no_other() {
        assert!(
            matches_tool("git.status", "git.status") && matches_tool("git.status", "git_status")
        );
        assert!(!matches_tool("git.status", "status"));
        assert!(matches_source("git", "git.status") && matches_source("my-git", "my_git_status"));
        assert!(!matches_source("git", "gitstatus") && !matches_source("git", "git"));
    }
}
