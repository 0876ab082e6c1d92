//! Compiled expressions: exact or floating-point evaluation on a stack.
//!
//! Exact evaluation reports errors with a position. Floating-point evaluation is fast and follows
//! IEEE rules: invalid results become NaN.

use super::{ExpressionError, error_at, require_finite};
use crate::math::exact_number::{ExactNumber, remainder};
use crate::math::function_table::{ExpressionFunction, FunctionError};

/// Expression compiled to stack instructions.
#[derive(Debug, Clone)]
pub struct CompiledExpression {
    instructions: Vec<StackInstruction>,
    /// Number of variable slots.
    slot_count: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct StackInstruction {
    pub(super) kind: InstructionKind,
    /// Position of the instruction's source, in characters from 1.
    pub(super) position: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum InstructionKind {
    Value(ExactNumber),
    Variable(usize),
    Negate,
    Binary(BinaryOperator),
    Call(ExpressionFunction, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BinaryOperator {
    Plus,
    Minus,
    Multiply,
    Divide,
    Modulo,
    Power,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Unequal,
}

impl CompiledExpression {
    pub(super) fn new(steps: Vec<StackInstruction>) -> Self {
        let slot = |step: &StackInstruction| match step.kind {
            InstructionKind::Variable(slot) => Some(slot + 1),
            _ => None,
        };
        let slots = steps.iter().filter_map(slot).max().unwrap_or(0);
        Self { instructions: steps, slot_count: slots }
    }

    /// Returns how many slots [`evaluate_f64`](Self::evaluate_f64) reads: one more than the highest
    /// variable slot.
    pub fn slot_count(&self) -> usize {
        self.slot_count
    }

    /// Evaluates an expression without variables exactly.
    ///
    /// # Errors
    /// [`ExpressionError`] with the position, also if the expression has a variable.
    pub fn evaluate_exact(&self) -> Result<ExactNumber, ExpressionError> {
        let mut stack: Vec<ExactNumber> = Vec::new();
        for StackInstruction { kind, position: place } in self.instructions.iter().copied() {
            let broken = || error_at(place, "the expression is invalid");
            let value = match kind {
                InstructionKind::Value(value) => value,
                InstructionKind::Variable(_) => {
                    return Err(error_at(place, "a variable has no value"));
                }
                InstructionKind::Negate => stack.pop().ok_or_else(broken)?.negate(),
                InstructionKind::Binary(sign) => {
                    let right = stack.pop().ok_or_else(broken)?;
                    let left = stack.pop().ok_or_else(broken)?;
                    let value = sign.apply_exact(left, right);
                    require_finite(
                        value.ok_or_else(|| error_at(place, "division by zero"))?,
                        place,
                    )?
                }
                InstructionKind::Call(function, count) => {
                    let from = stack.len().checked_sub(count).ok_or_else(broken)?;
                    let args = stack.split_off(from);
                    let value = function.apply_exact(&args).map_err(|fault| match fault {
                        FunctionError::InvalidDecimals => {
                            error_at(place, "`round` takes 0 to 15 places")
                        }
                        FunctionError::OutsideDomain(words) => error_at(place, words),
                    })?;
                    require_finite(value, place)?
                }
            };
            stack.push(value);
        }
        stack.pop().ok_or_else(|| error_at(1, "the expression is empty"))
    }

    /// Evaluates in floating point; `stack` is a reusable buffer. Returns NaN if there is no value
    /// or fewer `variables` than [`slot_count`](Self::slot_count).
    pub fn evaluate_f64(&self, variables: &[f64], stack: &mut Vec<f64>) -> f64 {
        stack.clear();
        for step in &self.instructions {
            match step.kind {
                InstructionKind::Value(value) => stack.push(value.to_f64()),
                InstructionKind::Variable(slot) => {
                    stack.push(variables.get(slot).copied().unwrap_or(f64::NAN));
                }
                InstructionKind::Negate => {
                    if let Some(last) = stack.last_mut() {
                        *last = -*last;
                    }
                }
                InstructionKind::Binary(sign) => {
                    if let (Some(right), Some(left)) = (stack.pop(), stack.last_mut()) {
                        *left = sign.apply_f64(*left, right);
                    }
                }
                InstructionKind::Call(function, count) => {
                    let from = stack.len().saturating_sub(count);
                    let value = function.apply_f64(stack.get(from..).unwrap_or_default());
                    stack.truncate(from);
                    stack.push(value);
                }
            }
        }
        stack.pop().unwrap_or(f64::NAN)
    }
}

impl BinaryOperator {
    /// Applies the operator exactly; `None` for division by zero.
    fn apply_exact(self, left: ExactNumber, right: ExactNumber) -> Option<ExactNumber> {
        let order = left.compare(right);
        match self {
            Self::Plus => Some(left.add(right)),
            Self::Minus => Some(left.subtract(right)),
            Self::Multiply => Some(left.multiply(right)),
            Self::Divide => left.divide(right),
            Self::Modulo => left.modulo(right),
            Self::Power if left.is_zero() && right.to_f64() < 0.0 => None,
            Self::Power => Some(left.power(right)),
            Self::Less => Some(bool_number(order.is_lt())),
            Self::LessOrEqual => Some(bool_number(order.is_le())),
            Self::Greater => Some(bool_number(order.is_gt())),
            Self::GreaterOrEqual => Some(bool_number(order.is_ge())),
            Self::Equal => Some(bool_number(order.is_eq())),
            Self::Unequal => Some(bool_number(order.is_ne())),
        }
    }

    #[expect(clippy::float_cmp, reason = "the expression asks for just that")]
    fn apply_f64(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Plus => left + right,
            Self::Minus => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Modulo => remainder(left, right),
            Self::Power => fast_power(left, right),
            Self::Less => f64::from(u8::from(left < right)),
            Self::LessOrEqual => f64::from(u8::from(left <= right)),
            Self::Greater => f64::from(u8::from(left > right)),
            Self::GreaterOrEqual => f64::from(u8::from(left >= right)),
            Self::Equal => f64::from(u8::from(left == right)),
            Self::Unequal => f64::from(u8::from(left != right)),
        }
    }
}

/// Squares are the most frequent powers, and a product is ten times faster than `powf`.
#[expect(clippy::float_cmp, reason = "a literal two")]
fn fast_power(base: f64, exponent: f64) -> f64 {
    if exponent == 2.0 { base * base } else { base.powf(exponent) }
}

fn bool_number(holds: bool) -> ExactNumber {
    ExactNumber::Integer(i128::from(holds))
}
