//! `calculate`: the value of an expression, and nothing else.

use builtins::Expression;
use serde_json::Value;

use crate::fields::Fields;
use crate::work::{Answer, Run};

/// Runs the tool.
pub(crate) fn calculate(fields: Fields<'_>, _run: &Run) -> Result<Answer, String> {
    let number = Expression(fields.text("expression")?).evaluate();
    let number = number.map_err(|error| error.to_string())?;
    // Whole numbers past 64 bits are floating point in a tree; the text has all their digits.
    let text = number.json();
    let value: Value = text.value();
    Ok(value.into())
}
