//! Operators of Python's numbers, lists and booleans. Operations with an array use NumPy's.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::{Signed as _, ToPrimitive as _, Zero as _};
use ruff_python_ast::{CmpOp, Operator, UnaryOp};

use super::budget::EvalBudget;
use super::value::PythonValue;
use super::{big_integer, elementwise, floats, sequence};

type Result<T> = std::result::Result<T, String>;

pub(super) const DIVISION_BY_ZERO: &str = "division by zero";

/// Evaluates `left op right`.
pub(super) fn apply_binary(
    op: Operator,
    left: &PythonValue,
    right: &PythonValue,
    budget: &mut EvalBudget,
) -> Result<PythonValue> {
    if matches!(op, Operator::BitXor) {
        return Err("`^` is not a power in Python; write `**`, or np.bitwise_xor(a, b)".to_owned());
    }
    if matches!(left, PythonValue::Array(_)) || matches!(right, PythonValue::Array(_)) {
        return elementwise::apply_binary(op, left, right, budget);
    }
    if let Some(list) = sequence::join_or_repeat(op, left, right, budget)? {
        return Ok(list);
    }
    match (left.as_integer(), right.as_integer()) {
        (Some(a), Some(b)) => {
            integer_operation(op, &a, &b, budget).map(|value| match (left, right, op) {
                (
                    PythonValue::Bool(_),
                    PythonValue::Bool(_),
                    Operator::BitAnd | Operator::BitOr,
                ) => PythonValue::Bool(value.truth().unwrap_or(false)),
                _ => value,
            })
        }
        (None, None) if !is_float(left) || !is_float(right) => Err(type_error(op, left, right)),
        (None, Some(_)) if !is_float(left) => Err(type_error(op, left, right)),
        (Some(_), None) if !is_float(right) => Err(type_error(op, left, right)),
        _ => float_operation(op, left, right).map(PythonValue::Float),
    }
}

fn is_float(value: &PythonValue) -> bool {
    matches!(value, PythonValue::Float(_))
}

fn type_error(op: Operator, left: &PythonValue, right: &PythonValue) -> String {
    format!("`{}` does not take {} and {}", op.as_str(), left.kind(), right.kind())
}

fn integer_operation(
    op: Operator,
    a: &BigInt,
    b: &BigInt,
    budget: &mut EvalBudget,
) -> Result<PythonValue> {
    budget.charge_product(a, b)?;
    let by_zero = b.is_zero() && matches!(op, Operator::Div | Operator::FloorDiv | Operator::Mod);
    if by_zero {
        return Err(DIVISION_BY_ZERO.to_owned());
    }
    let number = match op {
        Operator::Add => a + b,
        Operator::Sub => a - b,
        Operator::Mult => a * b,
        Operator::Div => return big_integer::quotient(a, b).map(PythonValue::Float),
        Operator::FloorDiv => a.div_floor(b),
        Operator::Mod => a.mod_floor(b),
        Operator::Pow if b.is_negative() => {
            return float_power(big_integer::to_float(a)?, big_integer::to_float(b)?)
                .map(PythonValue::Float);
        }
        Operator::Pow => {
            let exponent = b.to_u64().unwrap_or(u64::MAX);
            let words = a.bits().saturating_mul(exponent).min(big_integer::MAX_BITS) / 64 + 1;
            budget.charge_units(words * (words + 8))?;
            big_integer::power(a, b)?
        }
        Operator::BitAnd => a & b,
        Operator::BitOr => a | b,
        Operator::LShift => {
            let two = big_integer::power(&BigInt::from(2_u8), &shift_count(b)?)?;
            a * two
        }
        Operator::RShift => match shift_count(b)?.to_u64() {
            Some(places) if places <= big_integer::MAX_BITS => a >> places,
            _ => BigInt::from(if a.is_negative() { -1_i8 } else { 0 }),
        },
        Operator::BitXor | Operator::MatMult => {
            return Err(format!("`{}` does not take whole numbers", op.as_str()));
        }
    };
    let value = PythonValue::Int(big_integer::check_digits(number)?);
    budget.charge_copies(&value, 1)?;
    Ok(value)
}

fn shift_count(places: &BigInt) -> Result<BigInt> {
    if places.is_negative() {
        return Err("a shift takes at least 0 places".to_owned());
    }
    Ok(places.clone())
}

fn float_operation(op: Operator, left: &PythonValue, right: &PythonValue) -> Result<f64> {
    let (a, b) = (left.float()?, right.float()?);
    let by_zero = matches!(op, Operator::Div | Operator::FloorDiv | Operator::Mod);
    if by_zero && b == 0.0 {
        return Err(DIVISION_BY_ZERO.to_owned());
    }
    Ok(match op {
        Operator::Add => a + b,
        Operator::Sub => a - b,
        Operator::Mult => a * b,
        Operator::Div => a / b,
        Operator::FloorDiv => floats::floor_quotient(a, b),
        Operator::Mod => floats::remainder(a, b),
        Operator::Pow => float_power(a, b)?,
        _ => return Err(type_error(op, left, right)),
    })
}

/// Computes `base ** exponent` of floats. A complex result is an error.
pub(super) fn float_power(base: f64, exponent: f64) -> Result<f64> {
    if base == 0.0 && exponent < 0.0 {
        return Err(DIVISION_BY_ZERO.to_owned());
    }
    let value = base.powf(exponent);
    if value.is_nan() && !base.is_nan() && !exponent.is_nan() {
        return Err("the result is a complex number, and calculate has none; \
                    a negative number has no such power among real numbers"
            .to_owned());
    }
    floats::check_result(value, &[base, exponent])
}

/// Computes `-x`, `+x`, `~x` or `not x`.
pub(super) fn apply_unary(op: UnaryOp, value: &PythonValue) -> Result<PythonValue> {
    if matches!(op, UnaryOp::Not) {
        return value.truth().map(|truth| PythonValue::Bool(!truth));
    }
    if let PythonValue::Array(array) = value {
        return elementwise::unary(op, array);
    }
    match (op, value, value.as_integer()) {
        (UnaryOp::USub, _, Some(number)) => Ok(PythonValue::Int(-number)),
        (UnaryOp::UAdd, _, Some(number)) => Ok(PythonValue::Int(number)),
        (UnaryOp::Invert, _, Some(number)) => Ok(PythonValue::Int(-number - 1)),
        (UnaryOp::USub, PythonValue::Float(number), None) => Ok(PythonValue::Float(-number)),
        (UnaryOp::UAdd, PythonValue::Float(number), None) => Ok(PythonValue::Float(*number)),
        _ => Err(format!("`{}` does not take {}", op.as_str(), value.kind())),
    }
}

/// Compares two values: returns a boolean, or an array of them.
pub(super) fn compare_values(
    op: CmpOp,
    left: &PythonValue,
    right: &PythonValue,
) -> Result<PythonValue> {
    let truth = match op {
        CmpOp::Is => {
            matches!((left, right), (PythonValue::None, PythonValue::None))
                || same_bool(left, right)
        }
        CmpOp::IsNot => {
            return compare_values(CmpOp::Is, left, right)?
                .truth()
                .map(|truth| PythonValue::Bool(!truth));
        }
        CmpOp::In => list_contains(right, left)?,
        CmpOp::NotIn => !list_contains(right, left)?,
        _ if matches!(left, PythonValue::Array(_)) || matches!(right, PythonValue::Array(_)) => {
            return elementwise::compare(op, left, right);
        }
        CmpOp::Eq => values_equal(left, right),
        CmpOp::NotEq => !values_equal(left, right),
        CmpOp::Lt | CmpOp::LtE | CmpOp::Gt | CmpOp::GtE => {
            order_values(left, right, op.as_str())?.is_some_and(|order| order_satisfies(op, order))
        }
    };
    Ok(PythonValue::Bool(truth))
}

/// Whether `order` satisfies the comparison `op`.
pub(super) fn order_satisfies(op: CmpOp, order: Ordering) -> bool {
    match op {
        CmpOp::Eq => order.is_eq(),
        CmpOp::NotEq => order.is_ne(),
        CmpOp::Lt => order.is_lt(),
        CmpOp::LtE => order.is_le(),
        CmpOp::Gt => order.is_gt(),
        CmpOp::GtE => order.is_ge(),
        _ => false,
    }
}

fn same_bool(left: &PythonValue, right: &PythonValue) -> bool {
    matches!((left, right), (PythonValue::Bool(a), PythonValue::Bool(b)) if a == b)
}

fn list_contains(list: &PythonValue, wanted: &PythonValue) -> Result<bool> {
    Ok(list.items()?.iter().any(|item| values_equal(item, wanted)))
}

/// Whether both values are equal, of any type.
pub(super) fn values_equal(left: &PythonValue, right: &PythonValue) -> bool {
    match (left, right) {
        (PythonValue::None, PythonValue::None) => true,
        (PythonValue::Text(a), PythonValue::Text(b)) => a == b,
        (PythonValue::List(a), PythonValue::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values_equal(a, b))
        }
        _ => compare_numbers(left, right).is_ok_and(|order| order == Some(Ordering::Equal)),
    }
}

/// Orders two values; `None` with NaN.
pub(super) fn order_values(
    left: &PythonValue,
    right: &PythonValue,
    sign: &str,
) -> Result<Option<Ordering>> {
    if let (PythonValue::List(a), PythonValue::List(b)) = (left, right) {
        let differ = a.iter().zip(b).find(|(a, b)| !values_equal(a, b));
        return match differ {
            Some((a, b)) => order_values(a, b, sign),
            None => Ok(Some(a.len().cmp(&b.len()))),
        };
    }
    compare_numbers(left, right).map_err(|NotNumbers| {
        format!("`{sign}` does not take {} and {}", left.kind(), right.kind())
    })
}

/// Error: one of two values is not a number.
struct NotNumbers;

/// Orders two numbers; `None` with NaN.
fn compare_numbers(
    left: &PythonValue,
    right: &PythonValue,
) -> std::result::Result<Option<Ordering>, NotNumbers> {
    let float = |value: &PythonValue| match value.to_python_number() {
        PythonValue::Float(number) => Ok(number),
        _ => Err(NotNumbers),
    };
    Ok(match (left.as_integer(), right.as_integer()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => big_integer::compare(&a, float(right)?),
        (None, Some(b)) => big_integer::compare(&b, float(left)?).map(Ordering::reverse),
        (None, None) => float(left)?.partial_cmp(&float(right)?),
    })
}
