//! `write_file`: writes a file whole, or adds to its end.

use std::path::Path;
use std::sync::Arc;

use guard::roots::{Put, Root, RootError};
use serde_json::{Value, json};
use tool::{Args, Effect, Effects, Json, Scope};

use super::files::{Files, told};
use crate::builtin::{Builtin, Compute, Declaration, Reach};

/// The largest file that is added to, in bytes: it is written anew, so that no reader sees half of it.
const MOST: usize = 64 << 20;

pub(crate) fn builtin(files: Arc<Files>) -> Builtin {
    let declaration = Declaration {
        name: "write_file",
        handler: "write_file",
        category: "system",
        description: "Writes text to a file, or adds it to the end. Missing folders are made. Paths are \
                      relative to the working folder.",
        input: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "minLength": 1 },
                "content": { "type": "string" },
                "mode": {
                    "type": "string", "default": "w",
                    "description": "`w` replaces what is there, `a` adds to its end."
                },
            },
            "required": ["path", "content"],
            "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "bytes_written": { "type": "integer" },
                "path": { "type": "string" },
            },
            "required": ["bytes_written", "path"],
        }),
    };
    let effects = Effects::Declared(vec![Effect::ModifiesFiles]);
    let reach = Reach { scope: Scope::Filesystem, effects, chained: false };
    declaration.reaching(reach, WriteFile(files))
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
    let mut above: Vec<_> =
        path.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()).collect();
    above.reverse();
    for folder in above {
        match root.make_folder(folder) {
            Ok(()) | Err(RootError::Exists { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    root.write(path, content, Put::Replace)
}
