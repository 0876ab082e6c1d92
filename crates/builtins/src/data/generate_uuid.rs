//! `generate_uuid`: generates a random UUID (version 4).

use serde_json::json;
use tool::{Args, Json};

use tool_manifest::Registry;
use tool_manifest::{Builtin, Compute};

pub(crate) fn builtin(registry: &Registry) -> Option<Builtin> {
    Some(registry.get("generate_uuid")?.pure(GenerateUuid))
}

#[derive(Debug)]
struct GenerateUuid;

impl Compute for GenerateUuid {
    fn compute(&self, _args: &Args) -> Result<Json, String> {
        Ok(Json::of(&json!({ "uuid": uuid::Uuid::new_v4() })))
    }
}
