//! `calculate`: the value of a Python expression over numbers, lists and numpy's vectors.
//!
//! Ruff's parser reads the text; the tree is evaluated here, over a fixed table of functions. Whole numbers
//! are exact, `np.` functions follow numpy's types. What numpy only warns about (a division by zero, an
//! overflow, no real number) is an error, as under `np.seterr(all="raise")`.

mod arguments;
mod arrays;
mod budget;
mod elementwise;
mod evaluate;
mod floats;
mod functions;
mod math_functions;
mod names;
mod numpy_functions;
mod numpy_reductions;
mod operators;
mod python_functions;
mod rounding;
mod sequence;
mod value;
mod whole;

use builtins::ExpressionError;
use ruff_python_ast::Mod;
use ruff_python_parser::{Mode, ParseErrorType, ParseOptions};

use crate::fields::Fields;
use crate::work::{Answer, Run};

/// Characters of an expression.
const MAX_LENGTH: usize = 2_000;
/// Parentheses, signs, powers and calls inside each other.
const MAX_DEPTH: u16 = 64;

/// Runs the tool.
pub(crate) fn calculate(fields: Fields<'_>, _run: &Run) -> Result<Answer, String> {
    let value = value_of(fields.text("expression")?).map_err(|error| error.to_string())?;
    Ok(Answer::from(value.json()))
}

/// Parses and evaluates `text`.
fn value_of(text: &str) -> Result<value::Value, ExpressionError> {
    let length = text.chars().count();
    if length > MAX_LENGTH {
        let message = format!("the expression has {length} characters, {MAX_LENGTH} are allowed");
        return Err(ExpressionError { message, position: MAX_LENGTH + 1 });
    }
    let options = ParseOptions::from(Mode::Expression).with_max_recursion_depth(MAX_DEPTH);
    let parsed = ruff_python_parser::parse(text, options).map_err(|error| {
        let message = match &error.error {
            ParseErrorType::RecursionLimitExceeded => {
                format!("nested deeper than {MAX_DEPTH} levels")
            }
            other => lower_first(&other.to_string()),
        };
        let position = evaluate::position(text, error.location.start().to_usize());
        ExpressionError { message, position }
    })?;
    let Mod::Expression(expression) = parsed.into_syntax() else {
        let message = "expected one expression".to_owned();
        return Err(ExpressionError { message, position: 1 });
    };
    evaluate::Evaluator::new(text).value(&expression.body)
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests;
