//! Numbers that stay integers as long as the operation allows.
//!
//! Integers are computed in 128 bits and become floating point only if the operation or the size
//! requires it, because exact results are what a calculator is for.

use std::cmp::Ordering;

use tool::Json;

/// An integer or a finite floating-point number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An exact integer.
    Whole(i128),
    /// A double, to about 16 digits.
    Real(f64),
}

use Number::{Real, Whole};

/// Largest magnitude up to which a double represents every integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// Converts to floating point, rounded to nearest.
    #[expect(clippy::cast_precision_loss, reason = "rounding is what is asked for")]
    pub fn real(self) -> f64 {
        match self {
            Whole(whole) => whole as f64,
            Real(real) => real,
        }
    }

    /// Converts to JSON; integral values have no decimal point.
    pub fn json(self) -> Json {
        match self.settled() {
            Whole(whole) => Json::of(&whole),
            Real(real) => Json::of(&real),
        }
    }

    /// Converts an exact integral double to an integer.
    #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
    pub(crate) fn settled(self) -> Self {
        match self {
            Real(real) if real.fract() == 0.0 && real.abs() < EXACT => Whole(real as i128),
            other => other,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.compare(Whole(0)) == Ordering::Equal
    }

    pub(crate) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Whole(a), Whole(b)) => a.cmp(&b),
            (a, b) => a.real().total_cmp(&b.real()),
        }
    }

    pub(crate) fn negate(self) -> Self {
        match self {
            Whole(whole) => whole.checked_neg().map_or_else(|| Real(-self.real()), Whole),
            // Not to write minus zero.
            Real(real) => Real(0.0 - real),
        }
    }

    pub(crate) fn abs(self) -> Self {
        if self.compare(Whole(0)) == Ordering::Less { self.negate() } else { self }
    }

    pub(crate) fn add(self, other: Self) -> Self {
        self.either(other, i128::checked_add, |a, b| a + b)
    }

    pub(crate) fn subtract(self, other: Self) -> Self {
        self.either(other, i128::checked_sub, |a, b| a - b)
    }

    pub(crate) fn multiply(self, other: Self) -> Self {
        self.either(other, i128::checked_mul, |a, b| a * b)
    }

    /// Divides; `None` for division by zero.
    pub(crate) fn divide(self, other: Self) -> Option<Self> {
        let whole = |a: i128, b: i128| (a.checked_rem(b)? == 0).then(|| a.checked_div(b))?;
        (!other.is_zero()).then(|| self.either(other, whole, |a, b| a / b))
    }

    /// The remainder that has the divisor's sign, as mathjs has it; `None` by zero.
    pub(crate) fn modulo(self, other: Self) -> Option<Self> {
        let whole = |a: i128, b: i128| {
            let rest = a.checked_rem(b)?;
            if rest != 0 && (rest < 0) != (b < 0) { rest.checked_add(b) } else { Some(rest) }
        };
        (!other.is_zero()).then(|| self.either(other, whole, remainder))
    }

    pub(crate) fn power(self, other: Self) -> Self {
        let whole = |a: i128, b: i128| a.checked_pow(u32::try_from(b).ok()?);
        self.either(other, whole, f64::powf)
    }

    fn either(
        self,
        other: Self,
        whole: impl FnOnce(i128, i128) -> Option<i128>,
        real: impl FnOnce(f64, f64) -> f64,
    ) -> Self {
        let exact = match (self, other) {
            (Whole(a), Whole(b)) => whole(a, b),
            _ => None,
        };
        exact.map_or_else(|| Real(real(self.real(), other.real())), Whole)
    }
}

/// Remainder with the divisor's sign, from the exact IEEE remainder: a quotient would be rounded.
pub(super) fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}
