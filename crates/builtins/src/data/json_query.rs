//! `json_query`: queries JSON with JMESPath (<https://jmespath.org/specification.html>).
//!
//! The crate `jmespath` parses the expression and provides the functions. Evaluation happens here
//! with a step budget, because a short expression can require unbounded work: see
//! [`bounded_evaluator`].

mod bounded_evaluator;
mod expression_functions;

use jmespath::{JmespathError, Rcvar, Variable};
use serde_json::Value;
use tool::{CallArguments, Json, JsonLimits};

use tool_manifest::ManifestRegistry;
use tool_manifest::{BuiltinTool, ToolFunction};

/// Longest expression in characters, because parsing and evaluation are recursive.
const MAX_QUERY_CHARS: usize = 1_000;
/// Largest number of brackets, `!` and `&` in an expression.
const MAX_BRACKETS: usize = 100;

pub(crate) fn build_tool(registry: &ManifestRegistry) -> Option<BuiltinTool> {
    Some(registry.find_tool("json_query")?.with_blocking(JsonQuery))
}

#[derive(Debug)]
struct JsonQuery;

impl ToolFunction for JsonQuery {
    fn compute_output(&self, args: &CallArguments) -> Result<Json, String> {
        let args = args.as_value();
        let query = args.get("query").and_then(Value::as_str).unwrap_or_default();
        let data = args.get("data").unwrap_or(&Value::Null);
        run_query(&parsed_text(data).unwrap_or_else(|| data.clone()), query)
    }
}

/// Parses JSON that was passed as text, because models often pass on the text of another tool.
fn parsed_text(data: &Value) -> Option<Value> {
    let text = data.as_str().filter(|text| text.trim_start().starts_with(['{', '[']))?;
    Some(Json::parse(text.to_owned(), JsonLimits::DOCUMENT).ok()?.to_value())
}

/// Evaluates `query` on `data`.
fn run_query(data: &Value, query: &str) -> Result<Json, String> {
    let nested = query.chars().filter(|c| "([{!&".contains(*c)).count();
    if query.chars().count() > MAX_QUERY_CHARS || nested > MAX_BRACKETS {
        return Err(format!(
            "query: an expression may have at most {MAX_QUERY_CHARS} characters and {MAX_BRACKETS} \
             brackets, `!` and `&`; split it"
        ));
    }
    let parsed = jmespath::parse(query).map_err(|error| error_message(&error))?;
    let data = Variable::from_serializable(data).map_err(|error| error_message(&error))?;
    let steps = bounded_evaluator::BoundedEvaluator::new(query);
    let found = steps.eval_node(&Rcvar::new(data), &parsed)?;
    steps.charge_value(&found)?;
    let text = serde_json::to_string(&*found).map_err(|error| format!("query: {error}"))?;
    Json::parse(text, JsonLimits::DOCUMENT)
        .map_err(|error| format!("query: what was found: {error}"))
}

/// Formats an error as one line with its position.
fn error_message(error: &JmespathError) -> String {
    let reason = error.reason.to_string();
    let reason = reason.lines().next().unwrap_or_default();
    format!("query: {} at character {}", reason.trim_end_matches('.'), error.offset + 1)
}

#[cfg(test)]
mod tests;
