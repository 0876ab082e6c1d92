//! `generate_uuid`: a random UUID, version 4.

use serde_json::json;
use tool::{Args, Json};

use crate::builtin::{Builtin, Compute, Declaration};

pub(crate) fn builtin() -> Builtin {
    let declaration = Declaration {
        name: "generate_uuid",
        handler: "generate_uuid",
        category: "data",
        description: "Generates a random UUID (version 4).",
        input: json!({ "type": "object", "properties": {}, "required": [] }),
        output: json!({
            "type": "object",
            "properties": { "uuid": { "type": "string", "format": "uuid" } },
            "required": ["uuid"],
        }),
    };
    declaration.pure(GenerateUuid)
}

#[derive(Debug)]
struct GenerateUuid;

impl Compute for GenerateUuid {
    fn compute(&self, _args: &Args) -> Result<Json, String> {
        Ok(Json::of(&json!({ "uuid": uuid::Uuid::new_v4() })))
    }
}
