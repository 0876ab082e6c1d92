//! `calculate`: evaluates a Python expression over numbers, lists and NumPy vectors.
//!
//! Ruff's parser parses the text; this module evaluates the tree with a fixed table of functions.
//! Integers are exact, and `np.` functions follow NumPy's types. Conditions that NumPy only warns
//! about (division by zero, overflow, invalid value) are errors, as under `np.seterr(all="raise")`.

mod arguments;
mod array_creation;
mod arrays;
mod big_integer;
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

use builtins::ExpressionError;
use ruff_python_ast::Mod;
use ruff_python_parser::{Mode, ParseErrorType, ParseOptions};

use crate::tool_arguments::ToolArguments;
use crate::tool_execution::{Answer, RunContext};

/// Maximum characters of an expression.
const MAX_LENGTH: usize = 2_000;
/// Maximum nesting of parentheses, signs, powers and calls.
const MAX_DEPTH: u16 = 64;

/// Runs the tool `calculate` with its arguments.
pub(crate) fn run_calculate(
    arguments: ToolArguments<'_>,
    _run: &RunContext,
) -> Result<Answer, String> {
    let value =
        value_of(arguments.string_value("expression")?).map_err(|error| error.to_string())?;
    Ok(Answer::from(value.json()))
}

/// Parses and evaluates `text`.
fn value_of(text: &str) -> Result<value::PythonValue, ExpressionError> {
    let length = text.chars().count();
    if length > MAX_LENGTH {
        let message = format!(
            "the expression has {length} characters; the maximum is \
            {MAX_LENGTH}"
        );
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
    evaluate::Evaluator::new(text).evaluate_value(&expression.body)
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests;
