//! `calculator`: one expression, one number.

use serde_json::json;
use tool::{Args, Json};

use super::expression::Expression;
use crate::builtin::{Builtin, Compute, Declaration};

/// Spec 2's own words, whether the expression is missing, empty or no text.
const EMPTY: &str = "math_eval requires a non-empty string \"expression\" parameter";

pub(crate) fn builtin() -> Builtin {
    let declaration = Declaration {
        name: "calculator",
        handler: "math_eval",
        category: "math",
        description: "Evaluates a mathematical expression. Knows + - * / % ^ and parentheses, the \
                      constants pi and e, and the functions sqrt, cbrt, abs, sin, cos, tan, asin, acos, \
                      atan, log and ln (natural), log(x, base), log2, log10, exp, floor, ceil, round, min, \
                      max and pow. Whole numbers are exact.",
        input: json!({
            "type": "object",
            "properties": {
                "expression": {
                    "type": "string",
                    "description": "For example `2 * (3 + 4) ^ 2` or `sqrt(2) / 2`.",
                },
            },
            "required": ["expression"],
        }),
        output: json!({
            "type": "object",
            "properties": {
                "expression": { "type": "string" },
                "result": { "type": "number" },
            },
            "required": ["expression", "result"],
        }),
    };
    declaration.pure(Calculator)
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
