//! `list_directory`: lists the files and folders in a folder.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glob::Pattern;
use rooted_fs::rooted_dir::{FileKind, RootedDir, RootedDirEntry};
use serde_json::{Value, json};
use tool::{CallArguments, Json};

use super::file_roots::{FileRoots, describe_error};
use tool_manifest::ManifestRegistry;
use tool_manifest::{BuiltinTool, ToolFunction};

/// Largest number of listed entries (the research registry's number).
const MAX_LISTED: usize = 1_000;
/// Largest number of visited entries, in total and in one folder.
const MAX_VISITED: usize = 20_000;
/// Largest folder depth.
const MAX_DEPTH: usize = 32;

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    file_roots: Arc<FileRoots>,
) -> Option<BuiltinTool> {
    Some(registry.find_tool("list_directory")?.with_blocking(ListDirectory(file_roots)))
}

#[derive(Debug)]
struct ListDirectory(Arc<FileRoots>);

/// Parsed arguments of a call.
struct ListingQuery<'a> {
    root: &'a RootedDir,
    path: &'a Path,
    /// The path as the call has it.
    requested_path: &'a str,
    pattern: Pattern,
}

impl ListDirectory {
    fn parse_query<'a>(&'a self, args: &'a Value) -> Result<ListingQuery<'a>, String> {
        let text = |name| args.get(name).and_then(Value::as_str);
        let asked = text("path").unwrap_or_default();
        let pattern = text("pattern").unwrap_or("*");
        let pattern = Pattern::new(pattern).map_err(|error| format!("pattern: {error}"))?;
        let (root, path) = self.0.resolve_readable(asked)?;
        Ok(ListingQuery { root, path, requested_path: asked, pattern })
    }
}

impl ToolFunction for ListDirectory {
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String> {
        let args = args.as_value();
        let ListingQuery { root, path, requested_path: asked, pattern } = self.parse_query(args)?;
        let recursive = args.get("recursive").and_then(Value::as_bool).unwrap_or(false);
        let found = walk_folders(root, (path, Path::new(asked)), &pattern, recursive)?;
        Ok(Json::encode(&found))
    }

    fn check_args(&self, args: &CallArguments) -> Result<(), String> {
        self.parse_query(args.as_value()).map(drop)
    }
}

/// Walks folders breadth-first; links are not followed.
fn walk_folders(
    root: &RootedDir,
    (top, asked): (&Path, &Path),
    pattern: &Pattern,
    recursive: bool,
) -> Result<Vec<Value>, String> {
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut folders = VecDeque::from([(PathBuf::new(), 0)]);
    while let Some((below, depth)) = folders.pop_front() {
        let listing = match root.list_dir(top.join(&below), MAX_VISITED) {
            Ok(listing) => listing,
            Err(error) if depth == 0 => return Err(describe_error(&error)),
            // Removed meanwhile, or not readable: the others are listed.
            Err(_) => continue,
        };
        for entry in listing.entries {
            looked_at += 1;
            if found.len() >= MAX_LISTED || looked_at > MAX_VISITED {
                return Ok(found);
            }
            let path = below.join(&entry.name);
            if pattern.matches(&entry.name.to_string_lossy()) {
                found.push(entry_json(&entry, &asked.join(&path)));
            }
            if recursive && entry.metadata.kind == FileKind::Directory && depth < MAX_DEPTH {
                folders.push_back((path, depth + 1));
            }
        }
    }
    Ok(found)
}

fn entry_json(entry: &RootedDirEntry, path: &Path) -> Value {
    let kind = match entry.metadata.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "link",
        FileKind::Other => "other",
    };
    let path = path.strip_prefix(".").unwrap_or(path);
    json!({
        "name": entry.name.to_string_lossy(),
        "path": path.to_string_lossy(),
        "type": kind,
        "size": entry.metadata.size,
        "modified": entry.metadata.modified.to_string(),
    })
}
