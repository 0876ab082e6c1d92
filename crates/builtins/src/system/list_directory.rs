//! `list_directory`: lists the files and folders in a folder.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glob::Pattern;
use rooted_fs::roots::{Entry, Kind, Root};
use serde_json::{Value, json};
use tool::{Args, Json};

use super::files::{Files, told};
use tool_manifest::Registry;
use tool_manifest::{Builtin, Compute};

/// Largest number of listed entries (spec 3's number).
const MOST: usize = 1_000;
/// Largest number of visited entries, in total and in one folder.
const LOOKED_AT: usize = 20_000;
/// Largest folder depth.
const DEPTH: usize = 32;

pub(crate) fn builtin(registry: &Registry, files: Arc<Files>) -> Option<Builtin> {
    Some(registry.get("list_directory")?.aside(ListDirectory(files)))
}

#[derive(Debug)]
struct ListDirectory(Arc<Files>);

/// Parsed arguments of a call.
struct Query<'a> {
    root: &'a Root,
    path: &'a Path,
    /// The path as the call has it.
    asked: &'a str,
    pattern: Pattern,
}

impl ListDirectory {
    fn query<'a>(&'a self, args: &'a Value) -> Result<Query<'a>, String> {
        let text = |name| args.get(name).and_then(Value::as_str);
        let asked = text("path").unwrap_or_default();
        let pattern = text("pattern").unwrap_or("*");
        let pattern = Pattern::new(pattern).map_err(|error| format!("pattern: {error}"))?;
        let (root, path) = self.0.place_inside(asked)?;
        Ok(Query { root, path, asked, pattern })
    }
}

impl Compute for ListDirectory {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        let args = args.value();
        let Query { root, path, asked, pattern } = self.query(args)?;
        let recursive = args.get("recursive").and_then(Value::as_bool).unwrap_or(false);
        let found = walk(root, (path, Path::new(asked)), &pattern, recursive)?;
        Ok(Json::of(&found))
    }

    fn check_args(&self, args: &Args) -> Result<(), String> {
        self.query(args.value()).map(drop)
    }
}

/// Walks folders breadth-first; links are not followed.
fn walk(
    root: &Root,
    (top, asked): (&Path, &Path),
    pattern: &Pattern,
    recursive: bool,
) -> Result<Vec<Value>, String> {
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut folders = VecDeque::from([(PathBuf::new(), 0)]);
    while let Some((below, depth)) = folders.pop_front() {
        let listing = match root.list(top.join(&below), LOOKED_AT) {
            Ok(listing) => listing,
            Err(error) if depth == 0 => return Err(told(&error)),
            // Removed meanwhile, or not readable: the others are listed.
            Err(_) => continue,
        };
        for entry in listing.entries {
            looked_at += 1;
            if found.len() >= MOST || looked_at > LOOKED_AT {
                return Ok(found);
            }
            let path = below.join(&entry.name);
            if pattern.matches(&entry.name.to_string_lossy()) {
                found.push(told_of(&entry, &asked.join(&path)));
            }
            if recursive && entry.meta.kind == Kind::Folder && depth < DEPTH {
                folders.push_back((path, depth + 1));
            }
        }
    }
    Ok(found)
}

fn told_of(entry: &Entry, path: &Path) -> Value {
    let kind = match entry.meta.kind {
        Kind::File => "file",
        Kind::Folder => "directory",
        Kind::Link => "link",
        Kind::Other => "other",
    };
    let path = path.strip_prefix(".").unwrap_or(path);
    json!({
        "name": entry.name.to_string_lossy(),
        "path": path.to_string_lossy(),
        "type": kind,
        "size": entry.meta.size,
        "modified": entry.meta.modified.to_string(),
    })
}
