//! `write_file`: replaces the content of a file, or appends to it.

use std::path::Path;
use std::sync::Arc;

use rooted_fs::roots::{Put, Root, RootError};
use serde_json::{Value, json};
use tool::{Args, Json};

use super::files::{Files, told};
use tool_manifest::Registry;
use tool_manifest::{Builtin, Compute};

/// Largest file that can be appended to, in bytes. It is rewritten completely, so that readers
/// never see a partial write.
const MOST: usize = 64 << 20;

pub(crate) fn builtin(registry: &Registry, files: Arc<Files>) -> Option<Builtin> {
    Some(registry.get("write_file")?.aside(WriteFile(files)))
}

#[derive(Debug)]
struct WriteFile(Arc<Files>);

/// Parsed arguments of a call.
struct Target<'a> {
    root: &'a Root,
    path: &'a Path,
    /// The path as the call has it.
    asked: &'a str,
    appends: bool,
}

impl WriteFile {
    /// Parses the arguments and rejects those that can never be written, independent of existing
    /// files.
    fn target<'a>(&'a self, args: &'a Value) -> Result<Target<'a>, String> {
        let text = |name| args.get(name).and_then(Value::as_str);
        let asked = text("path").unwrap_or_default();
        let (root, path) = self.0.place(asked)?;
        let appends = match text("mode").unwrap_or("w") {
            "w" => false,
            "a" => true,
            other => return Err(format!("Invalid mode: {}", super::files::shown(other))),
        };
        root.check_change(path).map_err(|error| told(&error))?;
        Ok(Target { root, path, asked, appends })
    }
}

impl Compute for WriteFile {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        let args = args.value();
        let Target { root, path, asked, appends } = self.target(args)?;
        let content = args.get("content").and_then(Value::as_str).unwrap_or_default();
        let before = if appends {
            match root.read(path, MOST) {
                Ok(before) => before,
                Err(RootError::NoSuch { .. }) => Vec::new(),
                Err(error) => return Err(told(&error)),
            }
        } else {
            Vec::new()
        };
        write(root, path, &[&before, content.as_bytes()].concat()).map_err(|error| told(&error))?;
        Ok(Json::of(&json!({ "bytes_written": content.len(), "path": asked })))
    }

    fn check_args(&self, args: &Args) -> Result<(), String> {
        self.target(args.value()).map(drop)
    }
}

/// Writes the file and creates missing parent folders.
fn write(root: &Root, path: &Path, content: &[u8]) -> Result<(), RootError> {
    let first = root.write(path, content, Put::Replace);
    if !matches!(first, Err(RootError::NoSuch { .. })) {
        return first;
    }
    root.make_folders_above(path)?;
    root.write(path, content, Put::Replace)
}
