//! `echo`: gives back what it got, byte for byte. For tests of a connection.

use serde_json::json;
use tool::{Args, Json};

use crate::builtin::{Builtin, Compute, Declaration};

pub(crate) fn builtin() -> Builtin {
    let declaration = Declaration {
        name: "echo",
        handler: "echo",
        category: "specialized",
        description: "Returns its arguments unchanged under `echo`. Useful to test that tool calls work.",
        input: json!({
            "type": "object",
            "properties": { "message": { "type": "string", "description": "Any text to get back." } },
        }),
        output: json!({
            "type": "object",
            "properties": { "echo": { "type": "object" } },
            "required": ["echo"],
        }),
    };
    declaration.pure(Echo)
}

#[derive(Debug)]
struct Echo;

impl Compute for Echo {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        Ok(Json::fields([("echo", args.raw())]))
    }
}
