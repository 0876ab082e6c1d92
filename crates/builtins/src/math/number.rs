//! Numbers that stay whole as long as they can.
//!
//! A model asks a calculator exactly where floating point would be wrong: whole numbers are computed
//! in 128 bits and become floating point only where the operation or the size asks for it.

use std::cmp::Ordering;

use tool::Json;

/// A whole number, or a floating-point one that is finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Exact.
    Whole(i128),
    /// To about 16 digits.
    Real(f64),
}

use Number::{Real, Whole};

/// Past this a floating-point number no longer tells one whole number from the next.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// As floating point, rounded to the nearest.
    #[expect(clippy::cast_precision_loss, reason = "rounding is what is asked for")]
    pub fn real(self) -> f64 {
        match self {
            Whole(whole) => whole as f64,
            Real(real) => real,
        }
    }

    /// As JSON: whole numbers without a point, whatever way they came about.
    pub fn json(self) -> Json {
        match self.settled() {
            Whole(whole) => Json::of(&whole),
            Real(real) => Json::of(&real),
        }
    }

    /// A floating-point number that is whole and exact becomes a whole one.
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

    /// `None` by zero.
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

/// With the divisor's sign. By the exact remainder: a quotient would be rounded, and the product with it.
pub(super) fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}
