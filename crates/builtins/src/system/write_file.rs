//! `write_file`: replaces the content of a file, or appends to it.

use std::path::Path;
use std::sync::Arc;

use rooted_fs::rooted_dir::{FileAccessError, RootedDir, WriteMode};
use serde_json::{Value, json};
use tool::{CallArguments, Json};

use super::file_roots::{FileRoots, describe_error};
use tool_manifest::ManifestRegistry;
use tool_manifest::{BuiltinTool, ToolFunction};

/// Largest file that can be appended to, in bytes. It is rewritten completely, so that readers
/// never see a partial write.
const MAX_APPENDED_FILE_BYTES: usize = 64 << 20;

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    file_roots: Arc<FileRoots>,
) -> Option<BuiltinTool> {
    Some(registry.find_tool("write_file")?.with_blocking(WriteFile(file_roots)))
}

#[derive(Debug)]
struct WriteFile(Arc<FileRoots>);

/// Parsed arguments of a call.
struct WriteTarget<'a> {
    root: &'a RootedDir,
    path: &'a Path,
    /// The path as the call has it.
    requested_path: &'a str,
    appends: bool,
}

impl WriteFile {
    /// Parses the arguments and rejects those that can never be written, independent of existing
    /// files.
    fn parse_target<'a>(&'a self, args: &'a Value) -> Result<WriteTarget<'a>, String> {
        let text = |name| args.get(name).and_then(Value::as_str);
        let asked = text("path").unwrap_or_default();
        let (root, path) = self.0.resolve_path(asked)?;
        let appends = match text("mode").unwrap_or("w") {
            "w" => false,
            "a" => true,
            other => {
                return Err(format!(
                    "Invalid mode: {}",
                    super::file_roots::escape_for_message(other)
                ));
            }
        };
        root.check_writable(path).map_err(|error| describe_error(&error))?;
        Ok(WriteTarget { root, path, requested_path: asked, appends })
    }
}

impl ToolFunction for WriteFile {
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String> {
        let args = args.as_value();
        let WriteTarget { root, path, requested_path: asked, appends } = self.parse_target(args)?;
        let content = args.get("content").and_then(Value::as_str).unwrap_or_default();
        let before = if appends {
            match root.read_file(path, MAX_APPENDED_FILE_BYTES) {
                Ok(before) => before,
                Err(FileAccessError::NotFound { .. }) => Vec::new(),
                Err(error) => return Err(describe_error(&error)),
            }
        } else {
            Vec::new()
        };
        write_with_parents(root, path, &[&before, content.as_bytes()].concat())
            .map_err(|error| describe_error(&error))?;
        Ok(Json::encode(&json!({ "bytes_written": content.len(), "path": asked })))
    }

    fn check_args(&self, args: &CallArguments) -> Result<(), String> {
        self.parse_target(args.as_value()).map(drop)
    }
}

/// Writes the file and creates missing parent folders.
fn write_with_parents(
    root: &RootedDir,
    path: &Path,
    content: &[u8],
) -> Result<(), FileAccessError> {
    let first = root.write_file(path, content, WriteMode::Overwrite);
    if !matches!(first, Err(FileAccessError::NotFound { .. })) {
        return first;
    }
    root.create_parent_dirs(path)?;
    root.write_file(path, content, WriteMode::Overwrite)
}
