//! `read_file`: returns the content of a file.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;
use tool::{CallArguments, Json};

use super::file_roots::{FileRoots, describe_error};
use tool_manifest::{BuiltinTool, ToolFunction};
use tool_manifest::{ManifestRegistry, NumericLimit};

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    file_roots: Arc<FileRoots>,
) -> Option<BuiltinTool> {
    let declared = registry.find_tool("read_file")?;
    Some(
        declared
            .with_blocking(ReadFile { file_roots, max_bytes: declared.numeric_limit("max_bytes") }),
    )
}

#[derive(Debug)]
struct ReadFile {
    file_roots: Arc<FileRoots>,
    max_bytes: NumericLimit,
}

/// Result of `read_file`. Serialized directly, because a JSON tree would copy the content once
/// more.
#[derive(Serialize)]
struct FileContent {
    content: String,
    size: u64,
    modified: String,
    truncated: bool,
}

impl ToolFunction for ReadFile {
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String> {
        let args = args.as_value();
        let path = args.get("path").and_then(Value::as_str).unwrap_or_default();
        let encoding = args.get("encoding").and_then(Value::as_str).unwrap_or("utf-8");
        let limit = self.max_bytes.usize_in(args, "max_bytes");
        let (root, path) = self.file_roots.resolve_readable(path)?;
        let start = root.read_prefix(path, limit).map_err(|error| describe_error(&error))?;
        let content = decode_bytes(start.content, encoding, start.is_truncated)?;
        let (size, modified) = (start.metadata.size, start.metadata.modified.to_string());
        Ok(Json::encode(&FileContent { content, size, modified, truncated: start.is_truncated }))
    }

    fn check_args(&self, args: &CallArguments) -> Result<(), String> {
        let path = args.as_value().get("path").and_then(Value::as_str).unwrap_or_default();
        self.file_roots.resolve_readable(path).map(drop)
    }
}

pub(crate) fn decode_bytes(
    bytes: Vec<u8>,
    encoding: &str,
    is_truncated: bool,
) -> Result<String, String> {
    let no_text = |at: usize| {
        format!(
            "the file is not valid {encoding} at byte {at}; use the encoding `latin-1` or `base64`"
        )
    };
    match encoding {
        "base64" => Ok(STANDARD.encode(&bytes)),
        "latin-1" => Ok(bytes.into_iter().map(char::from).collect()),
        "ascii" => match bytes.iter().position(|byte| !byte.is_ascii()) {
            Some(at) => Err(no_text(at)),
            None => String::from_utf8(bytes).map_err(|_| no_text(0)),
        },
        _ => String::from_utf8(bytes).or_else(|error| {
            let (at, open) =
                (error.utf8_error().valid_up_to(), error.utf8_error().error_len().is_none());
            // An incomplete character at the end is dropped.
            if !(is_truncated && open) {
                return Err(no_text(at));
            }
            let mut bytes = error.into_bytes();
            bytes.truncate(at);
            String::from_utf8(bytes).map_err(|_| no_text(at))
        }),
    }
}
