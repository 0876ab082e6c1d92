//! Checks that the paths in call arguments lie beneath allowed folders.
//!
//! Paths are compared as text, without file access: the file guard resolves links. A doubtful path
//! counts as outside. A relative path starts in a folder of its tool, if that is known.

use serde_json::Value;
use tool::CallArguments;

use crate::DecisionReason;

/// Argument names that hold paths, lower case without `_` and `-`; also as the last word of a name.
const PATH_ARGUMENT_NAMES: &[&str] = &[
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filenames",
    "filepath",
    "directory",
    "dir",
    "folder",
    "root",
    "cwd",
    "workdir",
    "source",
    "destination",
    "src",
    "dst",
    "dest",
    "target",
    "archive",
];

/// Maximum size of scanned arguments in bytes; larger ones are doubtful.
const MAX_SCANNED_BYTES: usize = 1 << 20;

/// Violation of the allowed folders.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathViolation<'a> {
    pub(crate) reason: DecisionReason,
    /// First path that is not beneath an allowed folder; `None` if the arguments are too long to be
    /// scanned, or contain no path.
    pub(crate) path: Option<&'a str>,
}

/// Returns the violation of a call's paths, if any. `base` are the folders in which relative paths
/// start.
pub(crate) fn check_paths<'a>(
    args: &'a CallArguments,
    allowed: &[String],
    base: Option<&[String]>,
) -> Option<PathViolation<'a>> {
    if args.as_json().bytes().len() > MAX_SCANNED_BYTES {
        return Some(PathViolation { reason: DecisionReason::Path, path: None });
    }
    let base = base.unwrap_or_default();
    let mut found = PathScan { allowed, base_folders: base, has_paths: false, first_outside: None };
    found.scan_value(args.as_value(), false);
    let is_within = |folder: &String| allowed.iter().any(|allowed| is_at_or_below(folder, allowed));
    let is_known = !base.is_empty() && base.iter().all(is_within);
    match found.first_outside {
        Some(path) => Some(PathViolation { reason: DecisionReason::Path, path: Some(path) }),
        None if found.has_paths || is_known => None,
        None => Some(PathViolation { reason: DecisionReason::NoPath, path: None }),
    }
}

struct PathScan<'a, 'b> {
    allowed: &'b [String],
    base_folders: &'b [String],
    has_paths: bool,
    first_outside: Option<&'a str>,
}

impl<'a> PathScan<'a, '_> {
    /// Scans a value; `named` means that the argument's name denotes a path.
    fn scan_value(&mut self, value: &'a Value, named: bool) {
        match value {
            Value::String(text) if named || looks_like_path(text) => {
                self.has_paths = true;
                if !self.is_path_allowed(text) {
                    self.first_outside.get_or_insert(text);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.scan_value(item, named)),
            Value::Object(fields) => {
                fields
                    .iter()
                    .for_each(|(name, field)| self.scan_value(field, is_path_argument(name)));
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn is_path_allowed(&self, path: &str) -> bool {
        if is_doubtful(path) {
            return false;
        }
        let is_allowed = |base: &str| {
            // The working folder of a tool may be named itself, as `.`.
            let least = |folder: &String| usize::from(!is_at_or_below(base, folder));
            self.allowed.iter().any(|folder| {
                let deeper = depth_below(&format!("{base}/{path}"), folder);
                deeper.is_some_and(|deeper| deeper >= least(folder))
            })
        };
        if path.starts_with('/') {
            self.allowed.iter().any(|folder| is_strictly_below(path, folder))
        } else {
            !self.base_folders.is_empty() && self.base_folders.iter().all(|base| is_allowed(base))
        }
    }
}

fn is_path_argument(name: &str) -> bool {
    let mut words = name.split(['_', '-', '.']).filter(|word| !word.is_empty());
    let last = words.next_back().unwrap_or_default().to_ascii_lowercase();
    let whole: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let whole = whole.to_ascii_lowercase();
    PATH_ARGUMENT_NAMES.contains(&last.as_str())
        || PATH_ARGUMENT_NAMES.contains(&whole.as_str())
        || whole.ends_with("path")
}

/// Returns true if a text has the form of an absolute or escaping path.
fn looks_like_path(text: &str) -> bool {
    let begins =
        |with: &str| text.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    let one_line = !text.contains('\n');
    one_line
        && (text.starts_with('/')
            || text.starts_with('~')
            || begins("file:")
            || has_parent_segment(text))
}

fn has_parent_segment(text: &str) -> bool {
    text.split('/').any(|part| part == "..")
}

/// Returns true if a path may lead elsewhere than its text says.
fn is_doubtful(path: &str) -> bool {
    let other =
        path.starts_with('~') || path.get(..5).is_some_and(|it| it.eq_ignore_ascii_case("file:"));
    has_parent_segment(path) || path.contains(['\0', '\\', '%']) || other
}

/// Returns true for paths below a folder, excluding the folder itself.
fn is_strictly_below(path: &str, folder: &str) -> bool {
    depth_below(path, folder).is_some_and(|deeper| deeper > 0)
}

/// Returns true for the folder itself and paths below it.
fn is_at_or_below(path: &str, folder: &str) -> bool {
    depth_below(path, folder).is_some()
}

/// Returns the number of steps of an absolute path below a folder; `None` if it is outside.
fn depth_below(path: &str, folder: &str) -> Option<usize> {
    let parts = |text: &'_ str| {
        let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    if !path.starts_with('/') || is_doubtful(path) {
        return None;
    }
    let (path, folder) = (parts(path), parts(folder));
    path.starts_with(&folder).then(|| path.len() - folder.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use tool::{CallArguments, Json};

    use crate::DecisionReason;

    fn outside(args: &serde_json::Value, allowed: &[String]) -> Option<DecisionReason> {
        in_folders(args, allowed, None)
    }

    fn in_folders(
        args: &serde_json::Value,
        allowed: &[String],
        base: Option<&[&str]>,
    ) -> Option<DecisionReason> {
        let base: Option<Vec<_>> =
            base.map(|base| base.iter().map(|one| (*one).to_owned()).collect());
        let args = CallArguments::from_json(Json::encode(args)).unwrap();
        super::check_paths(&args, allowed, base.as_deref()).map(|outside| outside.reason)
    }

    #[test]
    fn a_relative_path_begins_in_the_tools_folder_and_no_path_is_that_folder() {
        let allowed = ["/mnt/raid0/llm/".to_owned(), "/tmp/".to_owned()];
        let at = |args: serde_json::Value, base: &[&str]| in_folders(&args, &allowed, Some(base));
        for (args, base) in [
            (json!({ "path": "a.txt" }), "/mnt/raid0/llm"),
            (json!({ "path": "." }), "/mnt/raid0/llm"),
            (json!({ "path": "./x/y" }), "/tmp/work/"),
            (json!({}), "/tmp/work"),
            (json!({ "pattern": "*.md" }), "/tmp"),
            // Below what is allowed, although the folder itself is above it.
            (json!({ "path": "llm/a.txt" }), "/mnt/raid0"),
        ] {
            assert_eq!(at(args.clone(), &[base]), None, "{args} in {base}");
        }
        for (args, base) in [
            (json!({ "path": "../raid1/x" }), "/mnt/raid0/llm"),
            (json!({ "path": "a/../../x" }), "/mnt/raid0/llm"),
            (json!({ "path": "~/a" }), "/tmp/work"),
            (json!({ "path": "a%2fb" }), "/tmp/work"),
            (json!({ "path": "a" }), "/srv"),
            (json!({ "path": "." }), "/mnt/raid0"),
            (json!({ "path": "llm" }), "/mnt/raid0"),
            (json!({ "path": "llm_evil/x" }), "/mnt/raid0"),
            // What is named whole is judged as ever.
            (json!({ "path": "/tmp" }), "/tmp/work"),
            (json!({ "path": "/etc/passwd" }), "/tmp/work"),
        ] {
            assert_eq!(at(args.clone(), &[base]), Some(DecisionReason::Path), "{args} in {base}");
        }
        assert_eq!(at(json!({}), &["/srv"]), Some(DecisionReason::NoPath));
        // Where it may begin in one of several, each must be allowed.
        let two = ["/tmp/a", "/srv"];
        assert_eq!(at(json!({ "path": "x" }), &two), Some(DecisionReason::Path));
        assert_eq!(at(json!({}), &two), Some(DecisionReason::NoPath));
        // Positive control: without a folder that is known, both are denied as they were.
        assert_eq!(outside(&json!({ "path": "a.txt" }), &allowed), Some(DecisionReason::Path));
        assert_eq!(outside(&json!({}), &allowed), Some(DecisionReason::NoPath));
    }

    #[test]
    fn what_is_too_long_to_be_looked_through_is_outside() {
        let args = json!({ "path": "/tmp/a", "text": "x".repeat(1 << 20) });
        assert_eq!(outside(&args, &["/tmp/".to_owned()]), Some(DecisionReason::Path));
    }

    #[test]
    fn only_what_lies_beneath_is_inside() {
        let allowed = ["/mnt/raid0/llm/".to_owned(), "/tmp/".to_owned()];
        let told = |args: serde_json::Value| outside(&args, &allowed);
        for inside in [
            json!({ "path": "/tmp/a" }),
            json!({ "path": "/tmp//a/./b" }),
            json!({ "files": ["/tmp/a", "/mnt/raid0/llm/x/y"], "content": "plain / text" }),
            json!({ "repo_path": "/tmp/repo", "message": "see ./docs" }),
        ] {
            assert_eq!(told(inside.clone()), None, "{inside}");
        }
        for out in [
            json!({ "path": "/tmp" }),
            json!({ "path": "/tmpx/a" }),
            json!({ "path": "/tmp/../etc/passwd" }),
            json!({ "path": "a" }),
            json!({ "path": "~/a" }),
            json!({ "path": "/tmp/%2e%2e/etc" }),
            json!({ "path": "/tmp/a", "output": "/etc/passwd" }),
            json!({ "path": "/tmp/a", "deep": [{ "where": "file:///etc/passwd" }] }),
            json!({ "filePath": "etc" }),
            json!({ "path": "/tmp/a", "other": "../../etc/passwd" }),
        ] {
            assert_eq!(told(out.clone()), Some(DecisionReason::Path), "{out}");
        }
        assert_eq!(told(json!({ "query": "x" })), Some(DecisionReason::NoPath));
        assert_eq!(outside(&json!({ "path": "/tmp/a" }), &[]), Some(DecisionReason::Path));
    }
}
