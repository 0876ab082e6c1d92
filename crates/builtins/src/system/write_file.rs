//! `write_file`: writes a file whole, or adds to its end.

use std::path::Path;
use std::sync::Arc;

use guard::roots::{Put, Root, RootError};
use serde_json::{Value, json};
use tool::{Args, Json};

use super::files::{Files, told};
use crate::builtin::{Builtin, Compute};
use crate::registry::Registry;

/// The largest file that is added to, in bytes: it is written anew, so that no reader sees half of it.
const MOST: usize = 64 << 20;

pub(crate) fn builtin(registry: &Registry, files: Arc<Files>) -> Option<Builtin> {
    Some(registry.get("write_file")?.aside(WriteFile(files)))
}

#[derive(Debug)]
struct WriteFile(Arc<Files>);

impl Compute for WriteFile {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        let args = args.value();
        let text = |name| args.get(name).and_then(Value::as_str);
        let (asked, content) =
            (text("path").unwrap_or_default(), text("content").unwrap_or_default());
        let mode = text("mode").unwrap_or("w");
        let (root, path) = self.0.place(asked)?;
        let before = match mode {
            "w" => Vec::new(),
            "a" => match root.read(path, MOST) {
                Ok(before) => before,
                Err(RootError::NoSuch { .. }) => Vec::new(),
                Err(error) => return Err(told(&error)),
            },
            other => return Err(format!("Invalid mode: {}", super::files::shown(other))),
        };
        write(root, path, &[&before, content.as_bytes()].concat()).map_err(|error| told(&error))?;
        Ok(Json::of(&json!({ "bytes_written": content.len(), "path": asked })))
    }
}

/// With the folders above it, where they are not there yet.
fn write(root: &Root, path: &Path, content: &[u8]) -> Result<(), RootError> {
    let first = root.write(path, content, Put::Replace);
    if !matches!(first, Err(RootError::NoSuch { .. })) {
        return first;
    }
    root.make_folders_above(path)?;
    root.write(path, content, Put::Replace)
}
