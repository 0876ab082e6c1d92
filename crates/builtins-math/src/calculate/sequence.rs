//! List operations: concatenation, repetition, indexing and slicing.

use num_traits::ToPrimitive as _;
use ruff_python_ast::Operator;

use super::arrays::{ArrayData, NumpyArray};
use super::budget::EvalBudget;
use super::value::PythonValue;

type Result<T> = std::result::Result<T, String>;

/// Evaluates `[1] + [2]` and `[1] * 2`; `None` for other operands.
pub(super) fn join_or_repeat(
    op: Operator,
    left: &PythonValue,
    right: &PythonValue,
    budget: &mut EvalBudget,
) -> Result<Option<PythonValue>> {
    let ((PythonValue::List(list), other) | (other, PythonValue::List(list))) = (left, right)
    else {
        return Ok(None);
    };
    match (op, left, other, other.as_integer()) {
        (Operator::Add, PythonValue::List(first), PythonValue::List(_), _) => {
            let PythonValue::List(second) = right else { return Ok(None) };
            budget.charge_elements(first.len() + second.len())?;
            budget.charge_copies(left, 1)?;
            budget.charge_copies(right, 1)?;
            Ok(Some(PythonValue::List(first.iter().chain(second).cloned().collect())))
        }
        (Operator::Mult, _, _, Some(count)) => {
            let count = count.to_i64().unwrap_or(i64::MAX).max(0);
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            budget.charge_elements(count.saturating_mul(list.len()))?;
            budget.charge_copies(
                if matches!(left, PythonValue::List(_)) { left } else { right },
                count,
            )?;
            let all = list.iter().cycle().take(count.saturating_mul(list.len())).cloned();
            Ok(Some(PythonValue::List(all.collect())))
        }
        _ => Err(format!(
            "`{}` does not take {} and {}; for element by element write np.array([…])",
            op.as_str(),
            left.kind(),
            right.kind()
        )),
    }
}

/// Evaluates `value[index]`; a boolean array selects the elements where it is true.
pub(super) fn get_element(value: &PythonValue, index: &PythonValue) -> Result<PythonValue> {
    if let (
        PythonValue::Array(array),
        PythonValue::Array(NumpyArray { scalar: false, data: ArrayData::Bool(mask) }),
    ) = (value, index)
    {
        if mask.len() != array.len() {
            let (found, wanted) = (mask.len(), array.len());
            return Err(format!("a mask of {found} for an array of {wanted} elements"));
        }
        let indices: Vec<usize> =
            mask.iter().enumerate().filter_map(|(at, is)| is.then_some(at)).collect();
        return Ok(PythonValue::Array(array.take_elements(&indices)));
    }
    let items = value.items()?;
    let index = index.index("the index")?;
    let length = items.len();
    let found = resolve_index(index, length).and_then(|at| items.get(at).cloned());
    found.ok_or_else(|| format!("index {index} is out of range for a list of {length} elements"))
}

fn resolve_index(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index.checked_add(length)? } else { index }).ok()
}

/// Bounds of a slice `value[lower:upper:step]`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SliceBounds {
    pub(super) lower: Option<i64>,
    pub(super) upper: Option<i64>,
    pub(super) step: Option<i64>,
}

/// Evaluates a slice `value[lower:upper:step]`.
pub(super) fn slice_list(
    value: &PythonValue,
    slice: SliceBounds,
    budget: &mut EvalBudget,
) -> Result<PythonValue> {
    let length = i64::try_from(value.items()?.len()).unwrap_or(i64::MAX);
    let step = slice.step.unwrap_or(1);
    if step == 0 {
        return Err("the step of a slice cannot be 0".to_owned());
    }
    let (least, most) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let within = |bound: Option<i64>, default: i64| match bound {
        None => default,
        Some(bound) if bound < 0 => bound.saturating_add(length).clamp(least, most),
        Some(bound) => bound.clamp(least, most),
    };
    let (first, last) = if step > 0 { (0, length) } else { (length - 1, -1) };
    let (mut at, end) = (within(slice.lower, first), within(slice.upper, last));
    let mut indices = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        indices.extend(usize::try_from(at).ok());
        at = at.saturating_add(step);
    }
    budget.charge_elements(indices.len())?;
    Ok(match value {
        PythonValue::Array(array) => PythonValue::Array(array.take_elements(&indices)),
        other => {
            let items = other.items()?;
            PythonValue::List(indices.iter().filter_map(|at| items.get(*at).cloned()).collect())
        }
    })
}
