//! Operators of numpy: element by element, with numpy's types.

use ruff_python_ast::{CmpOp, Operator, UnaryOp};

use super::arrays::{Array, Data, common_length, element, overflow, pair};
use super::budget::Budget;
use super::operators::DIVISION_BY_ZERO;
use super::value::Value;
use super::{floats, operators};

type Result<T> = std::result::Result<T, String>;

/// `left op right`, where one of them is an array.
pub(super) fn binary(
    op: Operator,
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Result<Value> {
    let (left, right) = pair(left, right)?;
    budget.vector(common_length(&left, &right)?)?;
    let truths = matches!((&left.data, &right.data), (Data::Bool(_), Data::Bool(_)));
    let float = left.is_float() || right.is_float() || matches!(op, Operator::Div);
    match op {
        Operator::MatMult => super::numpy_reductions::dot(&left, &right),
        Operator::Add | Operator::BitOr if truths => bools(&left, &right, |a, b| a || b),
        Operator::Mult | Operator::BitAnd if truths => bools(&left, &right, |a, b| a && b),
        Operator::Sub if truths => Err("`-` does not take truth values; use np.logical_xor".into()),
        _ if float => reals(&left, &right, real(op)?),
        _ => wholes(&left, &right, |a, b| whole(op, a, b)),
    }
}

/// The sign's function of floats.
fn real(op: Operator) -> Result<fn(f64, f64) -> Result<f64>> {
    Ok(match op {
        Operator::Add => |a, b| floats::checked(a + b, &[a, b]),
        Operator::Sub => |a, b| floats::checked(a - b, &[a, b]),
        Operator::Mult => |a, b| floats::checked(a * b, &[a, b]),
        Operator::Div => |a, b| divided(a / b, a, b),
        Operator::FloorDiv => |a, b| divided(floats::floor_quotient(a, b), a, b),
        Operator::Mod => |a, b| divided(floats::remainder(a, b), a, b),
        Operator::Pow => power,
        _ => return Err(format!("`{}` does not take floats", op.as_str())),
    })
}

pub(super) fn power(base: f64, exponent: f64) -> Result<f64> {
    if base == 0.0 && exponent < 0.0 {
        return Err(DIVISION_BY_ZERO.to_owned());
    }
    floats::checked(base.powf(exponent), &[base, exponent])
}

fn divided(value: f64, left: f64, right: f64) -> Result<f64> {
    if right == 0.0 && !left.is_nan() {
        return Err(DIVISION_BY_ZERO.to_owned());
    }
    floats::checked(value, &[left, right])
}

fn whole(op: Operator, a: i64, b: i64) -> Result<i64> {
    let by_zero = matches!(op, Operator::FloorDiv | Operator::Mod) && b == 0;
    if by_zero {
        return Err(DIVISION_BY_ZERO.to_owned());
    }
    let value = match op {
        Operator::Add => a.checked_add(b),
        Operator::Sub => a.checked_sub(b),
        Operator::Mult => a.checked_mul(b),
        Operator::FloorDiv => a.checked_div_euclid(b).and_then(|_| floor_div(a, b)),
        Operator::Mod => a
            .checked_rem(b)
            .map(|rest| if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }),
        Operator::Pow if b < 0 => {
            return Err("numpy raises whole numbers to no negative power; write 2.0".to_owned());
        }
        Operator::Pow => match u32::try_from(b) {
            Ok(exponent) => a.checked_pow(exponent),
            Err(_) => (-1..=1).contains(&a).then(|| if b % 2 == 0 { a * a } else { a }),
        },
        Operator::BitAnd => Some(a & b),
        Operator::BitOr => Some(a | b),
        Operator::LShift => {
            let places = u32::try_from(b).ok().filter(|places| *places < 63);
            places.and_then(|places| a.checked_mul(1_i64 << places))
        }
        Operator::RShift => u32::try_from(b).ok().map(|places| a >> places.min(63)),
        _ => return Err(format!("`{}` does not take whole numbers", op.as_str())),
    };
    value.ok_or_else(overflow)
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) { quotient - 1 } else { quotient })
}

/// Both as floats.
pub(super) fn reals(
    left: &Array,
    right: &Array,
    of: impl Fn(f64, f64) -> Result<f64>,
) -> Result<Value> {
    let (a, b) = (left.floats(), right.floats());
    let each = |at| of(element(&a, at), element(&b, at));
    let data = (0..common_length(left, right)?).map(each).collect::<Result<_>>()?;
    Ok(shaped(left, right, Data::Float(data)))
}

/// Both as whole numbers.
pub(super) fn wholes(
    left: &Array,
    right: &Array,
    of: impl Fn(i64, i64) -> Result<i64>,
) -> Result<Value> {
    let (a, b) = (left.ints(), right.ints());
    let each = |at| of(element(&a, at), element(&b, at));
    let data = (0..common_length(left, right)?).map(each).collect::<Result<_>>()?;
    Ok(shaped(left, right, Data::Int(data)))
}

/// Both as truth values.
pub(super) fn bools(left: &Array, right: &Array, of: impl Fn(bool, bool) -> bool) -> Result<Value> {
    let (a, b) = (left.bools(), right.bools());
    let each = |at| of(element(&a, at), element(&b, at));
    let data = (0..common_length(left, right)?).map(each).collect();
    Ok(shaped(left, right, Data::Bool(data)))
}

fn shaped(left: &Array, right: &Array, data: Data) -> Value {
    Value::Array(Array { scalar: left.scalar && right.scalar, data })
}

/// `-x`, `+x` and `~x`.
pub(super) fn unary(op: UnaryOp, array: &Array) -> Result<Value> {
    let data = match (op, &array.data) {
        (UnaryOp::USub | UnaryOp::UAdd, Data::Bool(_)) => {
            return Err(format!("`{}` does not take truth values of numpy; use ~", op.as_str()));
        }
        (UnaryOp::UAdd, data) => data.clone(),
        (UnaryOp::USub, Data::Int(items)) => Data::Int(
            items
                .iter()
                .map(|item| item.checked_neg().ok_or_else(overflow))
                .collect::<Result<_>>()?,
        ),
        (UnaryOp::USub, Data::Float(items)) => {
            Data::Float(items.iter().map(|item| -item).collect())
        }
        (UnaryOp::Invert, Data::Bool(items)) => {
            Data::Bool(items.iter().map(|item| !item).collect())
        }
        (UnaryOp::Invert, Data::Int(items)) => Data::Int(items.iter().map(|item| !item).collect()),
        _ => return Err(format!("`{}` does not take floats", op.as_str())),
    };
    Ok(Value::Array(Array { scalar: array.scalar, data }))
}

/// An array of truth values.
pub(super) fn compare(op: CmpOp, left: &Value, right: &Value) -> Result<Value> {
    // A whole number of any size may be compared with one that fits.
    if !left.is_sequence() && !right.is_sequence() {
        let order = operators::ordered(&left.plain(), &right.plain(), op.as_str())?;
        let truth = order.map_or(matches!(op, CmpOp::NotEq), |order| operators::holds(op, order));
        return Ok(Array::bool(truth));
    }
    let (left, right) = pair(left, right)?;
    let length = common_length(&left, &right)?;
    let truths: Vec<bool> = if left.is_float() || right.is_float() {
        let (a, b) = (left.floats(), right.floats());
        let each = |at| element(&a, at).partial_cmp(&element(&b, at));
        let holds = |order: Option<_>| {
            order.map_or(matches!(op, CmpOp::NotEq), |order| operators::holds(op, order))
        };
        (0..length).map(|at| holds(each(at))).collect()
    } else {
        let (a, b) = (left.ints(), right.ints());
        let each = |at| operators::holds(op, element(&a, at).cmp(&element(&b, at)));
        (0..length).map(each).collect()
    };
    Ok(shaped(&left, &right, Data::Bool(truths)))
}
