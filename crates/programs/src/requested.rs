//! Names of the tools that a program may call, found without running it: so that a server that has just started
//! waits for the sources that might have them.

use std::collections::BTreeSet;

use serde_json::Value;
use tool::CallId;

use crate::Programs;
use crate::functions::{TAKEN, python};
use crate::keep::Row;
use crate::program::At;

/// Names in a script or in its steps at most.
const NAMES: usize = 1_000;
/// Bytes of a name at most.
const NAME: usize = 200;
/// Functions of Python beside [`TAKEN`].
const PYTHON: &[&str] = &[
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

/// Names of tools in a script, or in a list of steps as JSON: functions that it calls and does not define, and
/// first arguments of `TOOL` and `CALL`. What only looks like a tool is among them.
pub fn requested_tools(text: &str) -> BTreeSet<String> {
    if let Ok(Value::Array(steps)) = serde_json::from_str(text) {
        let names = steps.iter().filter_map(|step| step.get("tool").and_then(Value::as_str));
        return names.filter(|name| name.len() <= NAME).map(str::to_owned).take(NAMES).collect();
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let (mut called, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for (at, _) in text.match_indices('(') {
        let before = text.get(..at).unwrap_or_default().trim_end();
        let start = before.trim_end_matches(is_part);
        let name = before.strip_prefix(start).unwrap_or_default();
        let after = text.get(at + 1..).unwrap_or_default();
        if name.is_empty() || name.len() > NAME || start.ends_with('.') {
            continue;
        }
        if matches!(name, "TOOL" | "CALL") {
            called.extend(quoted(after).map(str::to_owned));
        } else if start.trim_end().ends_with("def") {
            defined.insert(name);
        } else if !TAKEN.contains(&name) && !PYTHON.contains(&name) {
            called.insert(name.to_owned());
        }
        if called.len() >= NAMES {
            break;
        }
    }
    called.retain(|name| !defined.contains(name.as_str()));
    called
}

/// The text that stands at the beginning, in quotes.
fn quoted(code: &str) -> Option<&str> {
    let code = code.trim_start();
    let quote = code.chars().next().filter(|it| matches!(it, '"' | '\''))?;
    let (text, _) = code.get(1..)?.split_once(quote)?;
    (text.len() <= NAME).then_some(text)
}

/// Whether a program finds a tool by this name.
pub fn is_called(tool: &str, name: &str) -> bool {
    tool == name || python(tool) == name
}

/// Whether a name may be that of a tool of this source.
pub fn is_of_source(source: &str, name: &str) -> bool {
    let is_of = |source: &str| {
        name.strip_prefix(source).is_some_and(|rest| rest.len() > 1 && rest.starts_with(['.', '_']))
    };
    is_of(source) || is_of(&python(source))
}

impl Programs {
    /// Names of the tools that a stored program may call, which is found by its id or by that of a call it waits
    /// for. None of one that has ended.
    pub async fn stored_tools(&self, id: CallId) -> BTreeSet<String> {
        let rows: Vec<Row> = {
            let index = self.index();
            let waiting = index.waits_for(id).into_iter();
            waiting.chain(index.standing().into_iter().filter(|row| row.id == id)).collect()
        };
        let mut names = BTreeSet::new();
        for row in rows {
            let Ok(Some(kept)) = self.read(&row).await else { continue };
            match &kept.program.at {
                Some(At::Python { functions, .. }) => names.extend(functions.iter().cloned()),
                Some(At::Waves(at)) => {
                    names.extend(at.plan.steps.iter().map(|step| step.function.clone()));
                }
                None => names.extend(requested_tools(&kept.program.code)),
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::{is_called, is_of_source, requested_tools};

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
        assert!(is_called("git.status", "git.status") && is_called("git.status", "git_status"));
        assert!(!is_called("git.status", "status"));
        assert!(is_of_source("git", "git.status") && is_of_source("my-git", "my_git_status"));
        assert!(!is_of_source("git", "gitstatus") && !is_of_source("git", "git"));
    }
}
