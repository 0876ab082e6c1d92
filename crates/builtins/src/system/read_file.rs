//! `read_file`: what a file holds.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tool::{Args, Effects, Json, Scope};

use super::files::{Files, told};
use crate::builtin::{Builtin, Compute, Declaration, Reach};

/// The most that may be asked for, in bytes.
const MOST: usize = 10_000_000;
const ENCODINGS: [&str; 4] = ["utf-8", "ascii", "latin-1", "base64"];

pub(crate) fn builtin(files: Arc<Files>) -> Builtin {
    let declaration = Declaration {
        name: "read_file",
        handler: "read_file",
        category: "system",
        description: "Reads a file. Paths are relative to the working folder.",
        input: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "minLength": 1 },
                "encoding": {
                    "type": "string", "enum": ENCODINGS, "default": "utf-8",
                    "description": "How the bytes are read; `base64` for what is no text."
                },
                "max_bytes": {
                    "type": "integer", "minimum": 1, "maximum": MOST, "default": 1_000_000,
                    "description": "Where the file is longer, its beginning is read and `truncated` is true."
                },
            },
            "required": ["path"],
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "content": { "type": "string" },
                "size": { "type": "integer", "description": "Of the whole file, in bytes." },
                "modified": { "type": "string", "format": "date-time" },
                "truncated": { "type": "boolean" },
            },
            "required": ["content", "size", "modified", "truncated"],
        }),
    };
    let reach = Reach { scope: Scope::Filesystem, effects: Effects::read_only(), chained: true };
    declaration.reaching(reach, ReadFile(files))
}

#[derive(Debug)]
struct ReadFile(Arc<Files>);

impl Compute for ReadFile {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        let args = args.value();
        let path = args.get("path").and_then(Value::as_str).unwrap_or_default();
        let encoding = args.get("encoding").and_then(Value::as_str).unwrap_or("utf-8");
        let limit = args.get("max_bytes").and_then(Value::as_u64).unwrap_or(1_000_000);
        let limit = usize::try_from(limit).unwrap_or(MOST).min(MOST);
        let (root, path) = self.0.place(path)?;
        let start = root.read_start(path, limit).map_err(|error| told(&error))?;
        let content = decoded(start.content, encoding, start.more)?;
        Ok(Json::of(&json!({
            "content": content,
            "size": start.meta.size,
            "modified": start.meta.modified.to_string(),
            "truncated": start.more,
        })))
    }
}

fn decoded(bytes: Vec<u8>, encoding: &str, cut: bool) -> Result<String, String> {
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
            // A character that the cut went through is left out.
            if !(cut && open) {
                return Err(no_text(at));
            }
            let mut bytes = error.into_bytes();
            bytes.truncate(at);
            String::from_utf8(bytes).map_err(|_| no_text(at))
        }),
    }
}
