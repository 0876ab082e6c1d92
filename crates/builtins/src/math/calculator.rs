//! `calculator`: evaluates one expression to a number.

use tool::{CallArguments, Json};

use super::expression::Expression;
use tool_manifest::ManifestRegistry;
use tool_manifest::{BuiltinTool, ToolFunction};

/// Error text of the tool-file registry for a missing, empty or non-text expression.
const EMPTY_EXPRESSION_ERROR: &str =
    "math_eval requires a non-empty string \"expression\" parameter";

pub(crate) fn build_tool(registry: &ManifestRegistry) -> Option<BuiltinTool> {
    Some(registry.find_tool("calculator")?.with_inline(Calculator))
}

#[derive(Debug)]
struct Calculator;

impl ToolFunction for Calculator {
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String> {
        let text = args.as_value().get("expression").and_then(|text| text.as_str());
        let text = text.filter(|text| !text.trim().is_empty()).ok_or(EMPTY_EXPRESSION_ERROR)?;
        let result = Expression(text).evaluate_exact().map_err(|error| error.to_string())?;
        Ok(Json::object_from([("expression", &Json::encode(text)), ("result", &result.to_json())]))
    }
}
