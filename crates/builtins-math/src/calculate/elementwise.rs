//! NumPy operators: element by element, with NumPy's types.

use ruff_python_ast::{CmpOp, Operator, UnaryOp};

use super::arrays::{
    ArrayData, NumpyArray, common_length, element, operand_arrays, overflow_error,
};
use super::budget::EvalBudget;
use super::operators::DIVISION_BY_ZERO;
use super::value::PythonValue;
use super::{floats, operators};

type Result<T> = std::result::Result<T, String>;

/// Computes `left op right`, of which at least one is an array.
pub(super) fn apply_binary(
    op: Operator,
    left: &PythonValue,
    right: &PythonValue,
    budget: &mut EvalBudget,
) -> Result<PythonValue> {
    let (left, right) = operand_arrays(left, right)?;
    budget.charge_array(common_length(&left, &right)?)?;
    let truths = matches!((&left.data, &right.data), (ArrayData::Bool(_), ArrayData::Bool(_)));
    let float = left.is_float() || right.is_float() || matches!(op, Operator::Div);
    match op {
        Operator::MatMult => super::numpy_reductions::dot(&left, &right),
        Operator::Add | Operator::BitOr if truths => {
            apply_as_booleans(&left, &right, |a, b| a || b)
        }
        Operator::Mult | Operator::BitAnd if truths => {
            apply_as_booleans(&left, &right, |a, b| a && b)
        }
        Operator::Sub if truths => Err("`-` does not take truth values; use np.logical_xor".into()),
        _ if float => apply_as_floats(&left, &right, real(op)?),
        _ => apply_as_integers(&left, &right, |a, b| whole(op, a, b)),
    }
}

/// Returns the float implementation of an operator.
fn real(op: Operator) -> Result<fn(f64, f64) -> Result<f64>> {
    Ok(match op {
        Operator::Add => |a, b| floats::check_result(a + b, &[a, b]),
        Operator::Sub => |a, b| floats::check_result(a - b, &[a, b]),
        Operator::Mult => |a, b| floats::check_result(a * b, &[a, b]),
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
    floats::check_result(base.powf(exponent), &[base, exponent])
}

fn divided(value: f64, left: f64, right: f64) -> Result<f64> {
    if right == 0.0 && !left.is_nan() {
        return Err(DIVISION_BY_ZERO.to_owned());
    }
    floats::check_result(value, &[left, right])
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
    value.ok_or_else(overflow_error)
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) { quotient - 1 } else { quotient })
}

/// Applies `operation` to both operands as floats.
pub(super) fn apply_as_floats(
    left: &NumpyArray,
    right: &NumpyArray,
    operation: impl Fn(f64, f64) -> Result<f64>,
) -> Result<PythonValue> {
    let (a, b) = (left.floats(), right.floats());
    let each = |at| operation(element(&a, at), element(&b, at));
    let data = (0..common_length(left, right)?).map(each).collect::<Result<_>>()?;
    Ok(shaped(left, right, ArrayData::Float(data)))
}

/// Applies `operation` to both operands as integers.
pub(super) fn apply_as_integers(
    left: &NumpyArray,
    right: &NumpyArray,
    operation: impl Fn(i64, i64) -> Result<i64>,
) -> Result<PythonValue> {
    let (a, b) = (left.ints(), right.ints());
    let each = |at| operation(element(&a, at), element(&b, at));
    let data = (0..common_length(left, right)?).map(each).collect::<Result<_>>()?;
    Ok(shaped(left, right, ArrayData::Int(data)))
}

/// Applies `operation` to both operands as booleans.
pub(super) fn apply_as_booleans(
    left: &NumpyArray,
    right: &NumpyArray,
    operation: impl Fn(bool, bool) -> bool,
) -> Result<PythonValue> {
    let (a, b) = (left.bools(), right.bools());
    let each = |at| operation(element(&a, at), element(&b, at));
    let data = (0..common_length(left, right)?).map(each).collect();
    Ok(shaped(left, right, ArrayData::Bool(data)))
}

fn shaped(left: &NumpyArray, right: &NumpyArray, data: ArrayData) -> PythonValue {
    PythonValue::Array(NumpyArray { scalar: left.scalar && right.scalar, data })
}

/// Computes `-x`, `+x` or `~x` of an array.
pub(super) fn unary(op: UnaryOp, array: &NumpyArray) -> Result<PythonValue> {
    let data = match (op, &array.data) {
        (UnaryOp::USub | UnaryOp::UAdd, ArrayData::Bool(_)) => {
            return Err(format!("`{}` does not take truth values of numpy; use ~", op.as_str()));
        }
        (UnaryOp::UAdd, data) => data.clone(),
        (UnaryOp::USub, ArrayData::Int(items)) => ArrayData::Int(
            items
                .iter()
                .map(|item| item.checked_neg().ok_or_else(overflow_error))
                .collect::<Result<_>>()?,
        ),
        (UnaryOp::USub, ArrayData::Float(items)) => {
            ArrayData::Float(items.iter().map(|item| -item).collect())
        }
        (UnaryOp::Invert, ArrayData::Bool(items)) => {
            ArrayData::Bool(items.iter().map(|item| !item).collect())
        }
        (UnaryOp::Invert, ArrayData::Int(items)) => {
            ArrayData::Int(items.iter().map(|item| !item).collect())
        }
        _ => return Err(format!("`{}` does not take floats", op.as_str())),
    };
    Ok(PythonValue::Array(NumpyArray { scalar: array.scalar, data }))
}

/// Compares element by element, to an array of booleans.
pub(super) fn compare(op: CmpOp, left: &PythonValue, right: &PythonValue) -> Result<PythonValue> {
    // An integer of any size may be compared with a 64-bit one.
    if !left.is_sequence() && !right.is_sequence() {
        let order = operators::order_values(
            &left.to_python_number(),
            &right.to_python_number(),
            op.as_str(),
        )?;
        let truth =
            order.map_or(matches!(op, CmpOp::NotEq), |order| operators::order_satisfies(op, order));
        return Ok(NumpyArray::bool(truth));
    }
    let (left, right) = operand_arrays(left, right)?;
    let length = common_length(&left, &right)?;
    let truths: Vec<bool> = if left.is_float() || right.is_float() {
        let (a, b) = (left.floats(), right.floats());
        let each = |at| element(&a, at).partial_cmp(&element(&b, at));
        let holds = |order: Option<_>| {
            order.map_or(matches!(op, CmpOp::NotEq), |order| operators::order_satisfies(op, order))
        };
        (0..length).map(|at| holds(each(at))).collect()
    } else {
        let (a, b) = (left.ints(), right.ints());
        let each = |at| operators::order_satisfies(op, element(&a, at).cmp(&element(&b, at)));
        (0..length).map(each).collect()
    };
    Ok(shaped(&left, &right, ArrayData::Bool(truths)))
}
