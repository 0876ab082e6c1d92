//! `calculator`: evaluates one expression to a number.

use tool::{Args, Json};

use super::expression::Expression;
use tool_manifest::Registry;
use tool_manifest::{Builtin, Compute};

/// Error text of spec 2 for a missing, empty or non-text expression.
const EMPTY: &str = "math_eval requires a non-empty string \"expression\" parameter";

pub(crate) fn builtin(registry: &Registry) -> Option<Builtin> {
    Some(registry.get("calculator")?.pure(Calculator))
}

#[derive(Debug)]
struct Calculator;

impl Compute for Calculator {
    fn compute(&self, args: &Args) -> Result<Json, String> {
        let text = args.value().get("expression").and_then(|text| text.as_str());
        let text = text.filter(|text| !text.trim().is_empty()).ok_or(EMPTY)?;
        let result = Expression(text).evaluate().map_err(|error| error.to_string())?;
        Ok(Json::fields([("expression", &Json::of(text)), ("result", &result.json())]))
    }
}
