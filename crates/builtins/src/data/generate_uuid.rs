//! `generate_uuid`: generates a random UUID (version 4).

use serde_json::json;
use tool::{CallArguments, Json};

use tool_manifest::ManifestRegistry;
use tool_manifest::{BuiltinTool, ToolFunction};

pub(crate) fn build_tool(registry: &ManifestRegistry) -> Option<BuiltinTool> {
    Some(registry.find_tool("generate_uuid")?.with_inline(GenerateUuid))
}

#[derive(Debug)]
struct GenerateUuid;

impl ToolFunction for GenerateUuid {
    fn compute_output(&self, _args: &CallArguments) -> Result<Json, String> {
        Ok(Json::encode(&json!({ "uuid": uuid::Uuid::new_v4() })))
    }
}
