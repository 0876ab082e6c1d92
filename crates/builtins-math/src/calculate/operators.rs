//! Operators of Python's numbers, lists and truth values; what has an array goes to numpy's.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::{Signed as _, ToPrimitive as _, Zero as _};
use ruff_python_ast::{CmpOp, Operator, UnaryOp};

use super::budget::Budget;
use super::value::Value;
use super::{elementwise, floats, sequence, whole};

type Result<T> = std::result::Result<T, String>;

pub(super) const DIVISION_BY_ZERO: &str = "division by zero";

/// `left op right`.
pub(super) fn binary(
    op: Operator,
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Result<Value> {
    if matches!(op, Operator::BitXor) {
        return Err("`^` is no power in Python; write `**`, or np.bitwise_xor(a, b)".to_owned());
    }
    if matches!(left, Value::Array(_)) || matches!(right, Value::Array(_)) {
        return elementwise::binary(op, left, right, budget);
    }
    if let Some(list) = sequence::binary(op, left, right, budget)? {
        return Ok(list);
    }
    match (left.whole(), right.whole()) {
        (Some(a), Some(b)) => wholes(op, &a, &b, budget).map(|value| match (left, right, op) {
            (Value::Bool(_), Value::Bool(_), Operator::BitAnd | Operator::BitOr) => {
                Value::Bool(value.truth().unwrap_or(false))
            }
            _ => value,
        }),
        (None, None) if !is_float(left) || !is_float(right) => Err(unfit(op, left, right)),
        (None, Some(_)) if !is_float(left) => Err(unfit(op, left, right)),
        (Some(_), None) if !is_float(right) => Err(unfit(op, left, right)),
        _ => real(op, left, right).map(Value::Float),
    }
}

fn is_float(value: &Value) -> bool {
    matches!(value, Value::Float(_))
}

fn unfit(op: Operator, left: &Value, right: &Value) -> String {
    format!("`{}` does not take {} and {}", op.as_str(), left.kind(), right.kind())
}

fn wholes(op: Operator, a: &BigInt, b: &BigInt, budget: &mut Budget) -> Result<Value> {
    budget.product(a, b)?;
    let by_zero = b.is_zero() && matches!(op, Operator::Div | Operator::FloorDiv | Operator::Mod);
    if by_zero {
        return Err(DIVISION_BY_ZERO.to_owned());
    }
    let number = match op {
        Operator::Add => a + b,
        Operator::Sub => a - b,
        Operator::Mult => a * b,
        Operator::Div => return whole::quotient(a, b).map(Value::Float),
        Operator::FloorDiv => a.div_floor(b),
        Operator::Mod => a.mod_floor(b),
        Operator::Pow if b.is_negative() => {
            return float_power(whole::to_float(a)?, whole::to_float(b)?).map(Value::Float);
        }
        Operator::Pow => {
            let exponent = b.to_u64().unwrap_or(u64::MAX);
            let words = a.bits().saturating_mul(exponent).min(whole::MAX_BITS) / 64 + 1;
            budget.spend(words * (words + 8))?;
            whole::power(a, b)?
        }
        Operator::BitAnd => a & b,
        Operator::BitOr => a | b,
        Operator::LShift => {
            let two = whole::power(&BigInt::from(2_u8), &shift(b)?)?;
            a * two
        }
        Operator::RShift => match shift(b)?.to_u64() {
            Some(places) if places <= whole::MAX_BITS => a >> places,
            _ => BigInt::from(if a.is_negative() { -1_i8 } else { 0 }),
        },
        Operator::BitXor | Operator::MatMult => {
            return Err(format!("`{}` does not take whole numbers", op.as_str()));
        }
    };
    let value = Value::Int(whole::bounded(number)?);
    budget.copies(&value, 1)?;
    Ok(value)
}

fn shift(places: &BigInt) -> Result<BigInt> {
    if places.is_negative() {
        return Err("a shift takes at least 0 places".to_owned());
    }
    Ok(places.clone())
}

fn real(op: Operator, left: &Value, right: &Value) -> Result<f64> {
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
        _ => return Err(unfit(op, left, right)),
    })
}

/// `base ** exponent` of floats: where Python's answer would be complex, an error.
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
    floats::checked(value, &[base, exponent])
}

/// `-x`, `+x`, `~x`, `not x`.
pub(super) fn unary(op: UnaryOp, value: &Value) -> Result<Value> {
    if matches!(op, UnaryOp::Not) {
        return value.truth().map(|truth| Value::Bool(!truth));
    }
    if let Value::Array(array) = value {
        return elementwise::unary(op, array);
    }
    match (op, value, value.whole()) {
        (UnaryOp::USub, _, Some(number)) => Ok(Value::Int(-number)),
        (UnaryOp::UAdd, _, Some(number)) => Ok(Value::Int(number)),
        (UnaryOp::Invert, _, Some(number)) => Ok(Value::Int(-number - 1)),
        (UnaryOp::USub, Value::Float(number), None) => Ok(Value::Float(-number)),
        (UnaryOp::UAdd, Value::Float(number), None) => Ok(Value::Float(*number)),
        _ => Err(format!("`{}` does not take {}", op.as_str(), value.kind())),
    }
}

/// `left op right`: a truth value, or an array of them.
pub(super) fn compare(op: CmpOp, left: &Value, right: &Value) -> Result<Value> {
    let truth = match op {
        CmpOp::Is => matches!((left, right), (Value::None, Value::None)) || same_bool(left, right),
        CmpOp::IsNot => {
            return compare(CmpOp::Is, left, right)?.truth().map(|truth| Value::Bool(!truth));
        }
        CmpOp::In => contains(right, left)?,
        CmpOp::NotIn => !contains(right, left)?,
        _ if matches!(left, Value::Array(_)) || matches!(right, Value::Array(_)) => {
            return elementwise::compare(op, left, right);
        }
        CmpOp::Eq => equal(left, right),
        CmpOp::NotEq => !equal(left, right),
        CmpOp::Lt | CmpOp::LtE | CmpOp::Gt | CmpOp::GtE => {
            ordered(left, right, op.as_str())?.is_some_and(|order| holds(op, order))
        }
    };
    Ok(Value::Bool(truth))
}

/// Whether `order` is what `op` asks for.
pub(super) fn holds(op: CmpOp, order: Ordering) -> bool {
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

fn same_bool(left: &Value, right: &Value) -> bool {
    matches!((left, right), (Value::Bool(a), Value::Bool(b)) if a == b)
}

fn contains(list: &Value, wanted: &Value) -> Result<bool> {
    Ok(list.items()?.iter().any(|item| equal(item, wanted)))
}

/// Whether both are equal, whatever they are.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::None, Value::None) => true,
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        _ => numbers(left, right).is_ok_and(|order| order == Some(Ordering::Equal)),
    }
}

/// Which comes first; `None` with NaN.
pub(super) fn ordered(left: &Value, right: &Value, sign: &str) -> Result<Option<Ordering>> {
    if let (Value::List(a), Value::List(b)) = (left, right) {
        let differ = a.iter().zip(b).find(|(a, b)| !equal(a, b));
        return match differ {
            Some((a, b)) => ordered(a, b, sign),
            None => Ok(Some(a.len().cmp(&b.len()))),
        };
    }
    numbers(left, right).map_err(|NotNumbers| {
        format!("`{sign}` does not take {} and {}", left.kind(), right.kind())
    })
}

/// One of two values is no number.
struct NotNumbers;

/// The order of two numbers; `None` with NaN.
fn numbers(left: &Value, right: &Value) -> std::result::Result<Option<Ordering>, NotNumbers> {
    let float = |value: &Value| match value.plain() {
        Value::Float(number) => Ok(number),
        _ => Err(NotNumbers),
    };
    Ok(match (left.whole(), right.whole()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => whole::compare(&a, float(right)?),
        (None, Some(b)) => whole::compare(&b, float(left)?).map(Ordering::reverse),
        (None, None) => float(left)?.partial_cmp(&float(right)?),
    })
}
