//! Compiled expressions: exact or floating-point evaluation on a stack.
//!
//! Exact evaluation reports errors with a position. Floating-point evaluation is fast and follows
//! IEEE rules: invalid results become NaN.

use super::{ExpressionError, at, finite};
use crate::math::functions::{Fault, Function};
use crate::math::number::{Number, remainder};

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Program {
    steps: Vec<Step>,
    /// Number of variable slots.
    slots: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) kind: Kind,
    /// Position of the instruction's source, in characters from 1.
    pub(super) place: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Value(Number),
    Variable(usize),
    Negate,
    Binary(Sign),
    Call(Function, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
    Power,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
    Equal,
    Unequal,
}

impl Program {
    pub(super) fn new(steps: Vec<Step>) -> Self {
        let slot = |step: &Step| match step.kind {
            Kind::Variable(slot) => Some(slot + 1),
            _ => None,
        };
        let slots = steps.iter().filter_map(slot).max().unwrap_or(0);
        Self { steps, slots }
    }

    /// Returns how many slots [`real`](Self::real) reads: one more than the highest variable slot.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Evaluates an expression without variables exactly.
    ///
    /// # Errors
    /// [`ExpressionError`] with the position, also where there is a variable.
    pub fn evaluate(&self) -> Result<Number, ExpressionError> {
        let mut stack: Vec<Number> = Vec::new();
        for Step { kind, place } in self.steps.iter().copied() {
            let broken = || at(place, "the expression is broken");
            let value = match kind {
                Kind::Value(value) => value,
                Kind::Variable(_) => return Err(at(place, "a variable has no value here")),
                Kind::Negate => stack.pop().ok_or_else(broken)?.negate(),
                Kind::Binary(sign) => {
                    let right = stack.pop().ok_or_else(broken)?;
                    let left = stack.pop().ok_or_else(broken)?;
                    let value = sign.exact(left, right);
                    finite(value.ok_or_else(|| at(place, "division by zero"))?, place)?
                }
                Kind::Call(function, count) => {
                    let from = stack.len().checked_sub(count).ok_or_else(broken)?;
                    let args = stack.split_off(from);
                    let value = function.exact(&args).map_err(|fault| match fault {
                        Fault::Places => at(place, "`round` takes 0 to 15 places"),
                        Fault::Domain(words) => at(place, words),
                    })?;
                    finite(value, place)?
                }
            };
            stack.push(value);
        }
        stack.pop().ok_or_else(|| at(1, "the expression is empty"))
    }

    /// Evaluates in floating point; `stack` is a reusable buffer. Returns NaN if there is no value
    /// or fewer `variables` than [`slots`](Self::slots).
    pub fn real(&self, variables: &[f64], stack: &mut Vec<f64>) -> f64 {
        stack.clear();
        for step in &self.steps {
            match step.kind {
                Kind::Value(value) => stack.push(value.real()),
                Kind::Variable(slot) => {
                    stack.push(variables.get(slot).copied().unwrap_or(f64::NAN));
                }
                Kind::Negate => {
                    if let Some(last) = stack.last_mut() {
                        *last = -*last;
                    }
                }
                Kind::Binary(sign) => {
                    if let (Some(right), Some(left)) = (stack.pop(), stack.last_mut()) {
                        *left = sign.real(*left, right);
                    }
                }
                Kind::Call(function, count) => {
                    let from = stack.len().saturating_sub(count);
                    let value = function.real(stack.get(from..).unwrap_or_default());
                    stack.truncate(from);
                    stack.push(value);
                }
            }
        }
        stack.pop().unwrap_or(f64::NAN)
    }
}

impl Sign {
    /// Applies the operator exactly; `None` for division by zero.
    fn exact(self, left: Number, right: Number) -> Option<Number> {
        let order = left.compare(right);
        match self {
            Self::Plus => Some(left.add(right)),
            Self::Minus => Some(left.subtract(right)),
            Self::Times => Some(left.multiply(right)),
            Self::Over => left.divide(right),
            Self::Modulo => left.modulo(right),
            Self::Power if left.is_zero() && right.real() < 0.0 => None,
            Self::Power => Some(left.power(right)),
            Self::Less => Some(truth(order.is_lt())),
            Self::LessOrEqual => Some(truth(order.is_le())),
            Self::More => Some(truth(order.is_gt())),
            Self::MoreOrEqual => Some(truth(order.is_ge())),
            Self::Equal => Some(truth(order.is_eq())),
            Self::Unequal => Some(truth(order.is_ne())),
        }
    }

    #[expect(clippy::float_cmp, reason = "the expression asks for just that")]
    fn real(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Plus => left + right,
            Self::Minus => left - right,
            Self::Times => left * right,
            Self::Over => left / right,
            Self::Modulo => remainder(left, right),
            Self::Power => power(left, right),
            Self::Less => f64::from(u8::from(left < right)),
            Self::LessOrEqual => f64::from(u8::from(left <= right)),
            Self::More => f64::from(u8::from(left > right)),
            Self::MoreOrEqual => f64::from(u8::from(left >= right)),
            Self::Equal => f64::from(u8::from(left == right)),
            Self::Unequal => f64::from(u8::from(left != right)),
        }
    }
}

/// Squares are the most frequent powers, and a product is ten times as fast.
#[expect(clippy::float_cmp, reason = "a literal two")]
fn power(base: f64, exponent: f64) -> f64 {
    if exponent == 2.0 { base * base } else { base.powf(exponent) }
}

fn truth(holds: bool) -> Number {
    Number::Whole(i128::from(holds))
}
