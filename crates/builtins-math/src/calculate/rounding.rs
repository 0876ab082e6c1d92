//! Rounding as in Python: to the nearest, half to even.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::Signed as _;

use super::big_integer;

/// Rounds a float as `round(number, places)` does: by its exact decimal value, so that 2.675
/// becomes 2.67.
pub(super) fn round_float(number: f64, places: i32) -> Result<f64, String> {
    if !number.is_finite() || places > 323 {
        return Ok(number);
    }
    if places < -308 {
        return Ok(0.0_f64.copysign(number));
    }
    if let Ok(places) = usize::try_from(places) {
        return format!("{number:.places$}").parse().map_err(|_| "no number".to_owned());
    }
    // Exact, since a float is a multiple of its smallest step. For negative places only the integer
    // part counts, and a tie requires that no fraction follows.
    let whole = big_integer::truncate_float(number)?;
    let unit = power_of_ten(places.unsigned_abs());
    let twice = whole.abs() * 2_u8;
    let tie = (&twice % (&unit * 2_u8)) == unit && number.fract() != 0.0;
    let rounded = if tie {
        let up = (whole.abs() / &unit + 1_u8) * unit;
        if number < 0.0 { -up } else { up }
    } else {
        nearest(&whole, &unit)
    };
    let rounded = big_integer::to_float(&rounded)?;
    Ok(rounded.abs().copysign(number))
}

/// Rounds an integer as `round(number, -places)` does.
pub(super) fn round_integer(number: &BigInt, places: u32) -> BigInt {
    if u64::from(places) > big_integer::MAX_BITS {
        return BigInt::ZERO;
    }
    nearest(number, &power_of_ten(places))
}

fn power_of_ten(places: u32) -> BigInt {
    BigInt::from(10_u8).pow(places)
}

fn nearest(number: &BigInt, unit: &BigInt) -> BigInt {
    let (below, rest) = number.div_mod_floor(unit);
    let up = match (rest * 2_u8).cmp(unit) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => below.is_odd(),
    };
    (if up { below + 1_u8 } else { below }) * unit
}
