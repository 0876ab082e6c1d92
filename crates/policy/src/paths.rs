//! Whether the paths that a call names lie beneath allowed folders.
//!
//! Text is compared, nothing is looked up: what a link leads to is for the file guard. What is doubtful
//! lies outside.

use serde_json::Value;
use tool::Args;

use crate::Reason;

/// Names of arguments that hold paths, in small letters without `_` and `-`; also where a name ends so.
const NAMES: &[&str] = &[
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

/// The longest arguments that are looked through, in bytes; what is longer is doubtful.
const LONGEST: usize = 1 << 20;

/// Why a call is denied by its paths, where it is.
pub(crate) fn outside(args: &Args, allowed: &[String]) -> Option<Reason> {
    if args.raw().bytes().len() > LONGEST {
        return Some(Reason::Path);
    }
    let mut found = Found { allowed, any: false, outside: false };
    found.walk(args.value(), false);
    if found.outside {
        Some(Reason::Path)
    } else if found.any {
        None
    } else {
        Some(Reason::NoPath)
    }
}

struct Found<'a> {
    allowed: &'a [String],
    any: bool,
    outside: bool,
}

impl Found<'_> {
    /// `named`: the argument's name says that it is a path.
    fn walk(&mut self, value: &Value, named: bool) {
        match value {
            Value::String(text) if named || is_path(text) => {
                self.any = true;
                self.outside |= !self.allowed.iter().any(|folder| beneath(text, folder));
            }
            Value::Array(items) => items.iter().for_each(|item| self.walk(item, named)),
            Value::Object(fields) => {
                fields.iter().for_each(|(name, field)| self.walk(field, is_name(name)));
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn is_name(name: &str) -> bool {
    let mut words = name.split(['_', '-', '.']).filter(|word| !word.is_empty());
    let last = words.next_back().unwrap_or_default().to_ascii_lowercase();
    let whole: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let whole = whole.to_ascii_lowercase();
    NAMES.contains(&last.as_str()) || NAMES.contains(&whole.as_str()) || whole.ends_with("path")
}

/// Whether a text has the form of a path that leads somewhere by itself.
fn is_path(text: &str) -> bool {
    let begins =
        |with: &str| text.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    let one_line = !text.contains('\n');
    one_line && (text.starts_with('/') || text.starts_with('~') || begins("file:") || climbs(text))
}

fn climbs(text: &str) -> bool {
    text.split('/').any(|part| part == "..")
}

/// Things below a folder; not the folder itself (spec 3).
fn beneath(path: &str, folder: &str) -> bool {
    let doubtful = climbs(path) || path.contains(['\0', '\\', '%']) || !path.starts_with('/');
    let parts = |text: &'_ str| {
        let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    let (path, folder) = (parts(path), parts(folder));
    !doubtful && path.len() > folder.len() && path.starts_with(&folder)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use tool::{Args, Json};

    use crate::Reason;

    fn outside(args: &serde_json::Value, allowed: &[String]) -> Option<Reason> {
        super::outside(&Args::from_json(Json::of(args)).unwrap(), allowed)
    }

    #[test]
    fn what_is_too_long_to_be_looked_through_is_outside() {
        let args = json!({ "path": "/tmp/a", "text": "x".repeat(1 << 20) });
        assert_eq!(outside(&args, &["/tmp/".to_owned()]), Some(Reason::Path));
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
            assert_eq!(told(out.clone()), Some(Reason::Path), "{out}");
        }
        assert_eq!(told(json!({ "query": "x" })), Some(Reason::NoPath));
        assert_eq!(outside(&json!({ "path": "/tmp/a" }), &[]), Some(Reason::Path));
    }
}
