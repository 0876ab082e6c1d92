//! Mathematical expressions: compiled once, evaluated many times.
//!
//! Precedence is that of mathjs: `-2^2` is -4, `2^3^2` is 2^9, `%` is the remainder with the
//! divisor's sign. Length and depth are bounded, and an error names its position. A compiled
//! expression is a flat list of stack instructions, so that evaluation never recurses.

mod compiled_expression;
mod expression_parser;

use super::exact_number::ExactNumber;

pub use compiled_expression::CompiledExpression;

/// Source text of an expression.
#[derive(Debug, Clone, Copy)]
pub struct Expression<'a>(pub &'a str);

/// Error of an expression with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at position {position}")]
pub struct ExpressionError {
    /// Error message without the position.
    pub message: String,
    /// Character position from 1; one past the last if the expression ends too early.
    pub position: usize,
}

/// Longest expression, in characters.
pub(crate) const MAX_LENGTH: usize = 2_000;

impl Expression<'_> {
    /// Evaluates the expression to a finite number.
    ///
    /// # Errors
    /// [`ExpressionError`] with the position.
    pub fn evaluate_exact(self) -> Result<ExactNumber, ExpressionError> {
        self.compile(|_| None)?.evaluate_exact()
    }

    /// Compiles the expression for many evaluations. `variable` maps a name to its slot; `y[0]` is
    /// passed as `y0`.
    ///
    /// # Errors
    /// [`ExpressionError`] with the position.
    pub fn compile(
        self,
        variable: impl Fn(&str) -> Option<usize>,
    ) -> Result<CompiledExpression, ExpressionError> {
        let length = self.0.chars().count();
        if length > MAX_LENGTH {
            let message =
                format!("the expression has {length} characters; the maximum is {MAX_LENGTH}");
            return Err(ExpressionError { message, position: MAX_LENGTH + 1 });
        }
        expression_parser::parse_expression(self.0, &variable)
    }
}

fn error_at(position: usize, message: impl Into<String>) -> ExpressionError {
    ExpressionError { message: message.into(), position }
}

fn require_finite(value: ExactNumber, position: usize) -> Result<ExactNumber, ExpressionError> {
    match value.to_f64() {
        real if real.is_nan() => Err(error_at(position, "the result is not a real number")),
        real if real.is_infinite() => Err(error_at(position, "the result is too large")),
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests;
