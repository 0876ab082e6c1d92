//! `echo`: returns its arguments unchanged, byte for byte, to test a connection.

use tool::{CallArguments, Json};

use tool_manifest::ManifestRegistry;
use tool_manifest::{BuiltinTool, ToolFunction};

pub(crate) fn build_tool(registry: &ManifestRegistry) -> Option<BuiltinTool> {
    Some(registry.find_tool("echo")?.with_inline(EchoArguments))
}

#[derive(Debug)]
struct EchoArguments;

impl ToolFunction for EchoArguments {
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String> {
        Ok(Json::object_from([("echo", args.as_json())]))
    }
}
