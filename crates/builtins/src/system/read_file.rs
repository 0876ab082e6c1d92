//! `read_file`: returns the content of a file.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;
use tool::{Args, Json};

use super::files::{Files, told};
use tool_manifest::{Bound, Registry};
use tool_manifest::{Builtin, Compute};

pub(crate) fn builtin(registry: &Registry, files: Arc<Files>) -> Option<Builtin> {
    let declared = registry.get("read_file")?;
    Some(declared.aside(ReadFile { files, bytes: declared.bound("max_bytes") }))
}

#[derive(Debug)]
struct ReadFile {
    files: Arc<Files>,
    bytes: Bound,
}

/// Result of `read_file`. Serialized directly, because a JSON tree would copy the content once
/// more.
#[derive(Serialize)]
struct Answer {
    content: String,
    size: u64,
    modified: String,
    truncated: bool,
}

impl Compute for ReadFile {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        let args = args.value();
        let path = args.get("path").and_then(Value::as_str).unwrap_or_default();
        let encoding = args.get("encoding").and_then(Value::as_str).unwrap_or("utf-8");
        let limit = self.bytes.size(args, "max_bytes");
        let (root, path) = self.files.place_inside(path)?;
        let start = root.read_start(path, limit).map_err(|error| told(&error))?;
        let content = decoded(start.content, encoding, start.more)?;
        let (size, modified) = (start.meta.size, start.meta.modified.to_string());
        Ok(Json::of(&Answer { content, size, modified, truncated: start.more }))
    }

    fn check_args(&self, args: &Args) -> Result<(), String> {
        let path = args.value().get("path").and_then(Value::as_str).unwrap_or_default();
        self.files.place_inside(path).map(drop)
    }
}

pub(crate) fn decoded(bytes: Vec<u8>, encoding: &str, cut: bool) -> Result<String, String> {
    let no_text = |at: usize| {
        format!(
            "the file is no {encoding} at byte {at}; ask for the encoding `latin-1` or `base64`"
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
            if !(cut && open) {
                return Err(no_text(at));
            }
            let mut bytes = error.into_bytes();
            bytes.truncate(at);
            String::from_utf8(bytes).map_err(|_| no_text(at))
        }),
    }
}
