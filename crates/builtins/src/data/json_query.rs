//! `json_query`: queries JSON with JMESPath (<https://jmespath.org/specification.html>).
//!
//! The crate `jmespath` parses the expression and provides the functions. Evaluation happens here
//! with a step budget, because a short expression can require unbounded work: see [`steps`].

mod by;
mod steps;

use jmespath::{JmespathError, Rcvar, Variable};
use serde_json::Value;
use tool::{Args, Json, Limits};

use tool_manifest::Registry;
use tool_manifest::{Builtin, Compute};

/// Longest expression in characters, because parsing and evaluation are recursive.
const LONGEST: usize = 1_000;
/// Largest number of brackets, `!` and `&` in an expression.
const NESTED: usize = 100;

pub(crate) fn builtin(registry: &Registry) -> Option<Builtin> {
    Some(registry.get("json_query")?.aside(JsonQuery))
}

#[derive(Debug)]
struct JsonQuery;

impl Compute for JsonQuery {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        let args = args.value();
        let query = args.get("query").and_then(Value::as_str).unwrap_or_default();
        let data = args.get("data").unwrap_or(&Value::Null);
        search(&parsed_text(data).unwrap_or_else(|| data.clone()), query)
    }
}

/// Parses JSON that was passed as text, because models often pass on the text of another tool.
fn parsed_text(data: &Value) -> Option<Value> {
    let text = data.as_str().filter(|text| text.trim_start().starts_with(['{', '[']))?;
    Some(Json::check(text.to_owned(), Limits::DOCUMENT).ok()?.value())
}

/// Evaluates `query` on `data`.
fn search(data: &Value, query: &str) -> Result<Json, String> {
    let nested = query.chars().filter(|c| "([{!&".contains(*c)).count();
    if query.chars().count() > LONGEST || nested > NESTED {
        return Err(format!(
            "query: an expression may have {LONGEST} characters and {NESTED} brackets, `!` and `&`; \
             split it"
        ));
    }
    let parsed = jmespath::parse(query).map_err(|error| told(&error))?;
    let data = Variable::from_serializable(data).map_err(|error| told(&error))?;
    let steps = steps::Steps::new(query);
    let found = steps.evaluate(&Rcvar::new(data), &parsed)?;
    steps.weigh(&found)?;
    let text = serde_json::to_string(&*found).map_err(|error| format!("query: {error}"))?;
    Json::check(text, Limits::DOCUMENT).map_err(|error| format!("query: what was found: {error}"))
}

/// Formats an error as one line with its position.
fn told(error: &JmespathError) -> String {
    let reason = error.reason.to_string();
    let reason = reason.lines().next().unwrap_or_default();
    format!("query: {} at character {}", reason.trim_end_matches('.'), error.offset + 1)
}

#[cfg(test)]
mod tests;
