//! Integers of any size, up to 4,300 digits: the limit at which Python itself prints them.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::{FromPrimitive as _, One as _, Signed as _, ToPrimitive as _, Zero as _};

/// Maximum bits of an integer, just below 10^4300.
pub(super) const MAX_BITS: u64 = 14_284;

type Result<T> = std::result::Result<T, String>;

/// Returns `number` if it is within the limit.
pub(super) fn check_digits(number: BigInt) -> Result<BigInt> {
    if number.bits() > MAX_BITS { Err(too_large()) } else { Ok(number) }
}

fn too_large() -> String {
    "the result has more than 4300 digits; use floats, such as `2.0 ** n`, or logarithms".to_owned()
}

/// Converts to the nearest float.
pub(super) fn to_float(number: &BigInt) -> Result<f64> {
    let float = number.to_f64().filter(|float| float.is_finite());
    float.ok_or_else(|| "the whole number is too large for a float".to_owned())
}

/// Truncates a finite float to an integer.
pub(super) fn truncate_float(number: f64) -> Result<BigInt> {
    BigInt::from_f64(number.trunc())
        .ok_or_else(|| format!("`{number}` cannot be converted to a whole number"))
}

/// Computes `base ** exponent` for an exponent of at least 0.
pub(super) fn power(base: &BigInt, exponent: &BigInt) -> Result<BigInt> {
    if base.is_zero() || base.abs().is_one() {
        let even = exponent.is_even();
        let sign = base.is_negative() && even;
        let value = if exponent.is_zero() { BigInt::one() } else { base.clone() };
        return Ok(if sign { value.abs() } else { value });
    }
    let exponent = exponent.to_u32().ok_or_else(too_large)?;
    if (base.bits() - 1).saturating_mul(u64::from(exponent)) > MAX_BITS {
        return Err(too_large());
    }
    check_digits(base.pow(exponent))
}

/// Computes the factorial `n!`.
pub(super) fn factorial(n: &BigInt) -> Result<BigInt> {
    if n.is_negative() {
        return Err("`factorial` takes a whole number of at least 0".to_owned());
    }
    permutations(n, n)
}

/// Computes `n! / (n - k)!`, which is 0 for k > n.
pub(super) fn permutations(n: &BigInt, k: &BigInt) -> Result<BigInt> {
    let mut value = BigInt::one();
    if k > n {
        return Ok(BigInt::zero());
    }
    // At most as many factors above 1 as bits are allowed, so this ends early.
    let mut factor = n - k + 1_u8;
    while &factor <= n {
        value = check_digits(value * &factor)?;
        factor += 1_u8;
    }
    Ok(value)
}

/// Computes `n! / (k! (n - k)!)`, which is 0 for k > n.
pub(super) fn combinations(n: &BigInt, k: &BigInt) -> Result<BigInt> {
    if k > n {
        return Ok(BigInt::zero());
    }
    let k = k.clone().min(n - k);
    // The result is at least 2^k.
    let k = k.to_u64().filter(|k| *k <= MAX_BITS).ok_or_else(too_large)?;
    (0..k).try_fold(BigInt::one(), |value, i| check_digits(value * (n - i) / (i + 1)))
}

/// Computes `left / right`, rounded once. `right` must not be 0.
pub(super) fn quotient(left: &BigInt, right: &BigInt) -> Result<f64> {
    if left.bits() <= 53 && right.bits() <= 53 {
        return Ok(to_float(left)? / to_float(right)?);
    }
    // Enough bits that the last one can record whether there was a remainder.
    let wanted = (right.bits() + 66).saturating_sub(left.bits());
    let (whole, rest) = (left.abs() << wanted).div_rem(&right.abs());
    let sticky = if rest.is_zero() || whole.is_odd() { whole } else { whole + 1_u8 };
    let shift = i32::try_from(wanted).map_err(|_| too_large())?;
    let float = sticky.to_f64().map_or(f64::INFINITY, |float| libm::ldexp(float, -shift));
    if float.is_infinite() {
        return Err("the quotient is too large for a float".to_owned());
    }
    Ok(if left.is_negative() == right.is_negative() { float } else { -float })
}

/// Compares exactly; `None` with NaN.
pub(super) fn compare(integer: &BigInt, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float.is_infinite() {
        return Some(if float > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let below = BigInt::from_f64(float.floor())?;
    let part = if float.fract() == 0.0 { Ordering::Equal } else { Ordering::Less };
    Some(integer.cmp(&below).then(part))
}
