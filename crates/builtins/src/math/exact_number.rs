//! Numbers that stay integers as long as the operation allows.
//!
//! Integers are computed in 128 bits and become floating point only if the operation or the size
//! requires it, because exact results are what a calculator is for.

use std::cmp::Ordering;

use tool::Json;

/// An integer or a finite floating-point number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExactNumber {
    /// An exact integer.
    Integer(i128),
    /// A double, to about 16 digits.
    Float(f64),
}

use ExactNumber::{Float, Integer};

/// Largest magnitude up to which a double represents every integer.
const MAX_EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

impl ExactNumber {
    /// Converts to floating point, rounded to nearest.
    #[expect(clippy::cast_precision_loss, reason = "rounding is what is asked for")]
    pub fn to_f64(self) -> f64 {
        match self {
            Integer(whole) => whole as f64,
            Float(real) => real,
        }
    }

    /// Converts to JSON; integral values have no decimal point.
    pub fn to_json(self) -> Json {
        match self.to_integer_if_exact() {
            Integer(whole) => Json::encode(&whole),
            Float(real) => Json::encode(&real),
        }
    }

    /// Converts an exact integral double to an integer.
    #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
    pub(crate) fn to_integer_if_exact(self) -> Self {
        match self {
            Float(real) if real.fract() == 0.0 && real.abs() < MAX_EXACT_FLOAT => {
                Integer(real as i128)
            }
            other => other,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.compare(Integer(0)) == Ordering::Equal
    }

    pub(crate) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Integer(a), Integer(b)) => a.cmp(&b),
            (a, b) => a.to_f64().total_cmp(&b.to_f64()),
        }
    }

    pub(crate) fn negate(self) -> Self {
        match self {
            Integer(whole) => whole.checked_neg().map_or_else(|| Float(-self.to_f64()), Integer),
            // Avoids negative zero.
            Float(real) => Float(0.0 - real),
        }
    }

    pub(crate) fn abs(self) -> Self {
        if self.compare(Integer(0)) == Ordering::Less { self.negate() } else { self }
    }

    pub(crate) fn add(self, other: Self) -> Self {
        self.apply_exact_or_float(other, i128::checked_add, |a, b| a + b)
    }

    pub(crate) fn subtract(self, other: Self) -> Self {
        self.apply_exact_or_float(other, i128::checked_sub, |a, b| a - b)
    }

    pub(crate) fn multiply(self, other: Self) -> Self {
        self.apply_exact_or_float(other, i128::checked_mul, |a, b| a * b)
    }

    /// Divides; `None` for division by zero.
    pub(crate) fn divide(self, other: Self) -> Option<Self> {
        let whole = |a: i128, b: i128| (a.checked_rem(b)? == 0).then(|| a.checked_div(b))?;
        (!other.is_zero()).then(|| self.apply_exact_or_float(other, whole, |a, b| a / b))
    }

    /// Returns the remainder with the divisor's sign, as mathjs does; `None` for division by zero.
    pub(crate) fn modulo(self, other: Self) -> Option<Self> {
        let whole = |a: i128, b: i128| {
            let rest = a.checked_rem(b)?;
            if rest != 0 && (rest < 0) != (b < 0) { rest.checked_add(b) } else { Some(rest) }
        };
        (!other.is_zero()).then(|| self.apply_exact_or_float(other, whole, remainder))
    }

    pub(crate) fn power(self, other: Self) -> Self {
        let whole = |a: i128, b: i128| a.checked_pow(u32::try_from(b).ok()?);
        self.apply_exact_or_float(other, whole, f64::powf)
    }

    fn apply_exact_or_float(
        self,
        other: Self,
        whole: impl FnOnce(i128, i128) -> Option<i128>,
        real: impl FnOnce(f64, f64) -> f64,
    ) -> Self {
        let exact = match (self, other) {
            (Integer(a), Integer(b)) => whole(a, b),
            _ => None,
        };
        exact.map_or_else(|| Float(real(self.to_f64(), other.to_f64())), Integer)
    }
}

/// Remainder with the divisor's sign, from the exact IEEE remainder: a quotient would be rounded.
pub(super) fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}
