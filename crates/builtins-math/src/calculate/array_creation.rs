//! NumPy functions that create arrays: `linspace`, `arange`, and those with one value.

use super::arguments::CallArguments;
use super::arrays::{ArrayData, NumpyArray, overflow_error};
use super::budget::EvalBudget;
use super::value::PythonValue;

type Result<T> = std::result::Result<T, String>;

/// Returns numbers with equal distances between two ends.
pub(super) fn linspace(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
    let (start, stop) = (it.float("start")?, it.float("stop")?);
    let count = usize::try_from(it.index_or("num", 50)?);
    let count = count.map_err(|_| "`num` must be at least 0".to_owned())?;
    budget.charge_array(count)?;
    let closed = it.optional("endpoint").map_or(Ok(true), PythonValue::truth)?;
    let gaps = if closed { count.saturating_sub(1) } else { count };
    let step = (stop - start) / gaps as f64;
    let one = |at: usize| {
        if closed && at + 1 == count && count > 1 {
            stop
        } else if at == 0 {
            start
        } else {
            start + at as f64 * step
        }
    };
    Ok(PythonValue::Array(NumpyArray::from_data(ArrayData::Float((0..count).map(one).collect()))))
}

/// Returns numbers with a fixed step between two ends.
pub(super) fn arange(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
    let one = PythonValue::Int(1_u8.into());
    let zero = PythonValue::Int(0_u8.into());
    let (start, stop) = match it.optional("stop") {
        Some(stop) => (it.value("start")?, stop),
        None => (&zero, it.value("start")?),
    };
    let step = it.optional("step").unwrap_or(&one);
    let (first, last, by) = (start.float()?, stop.float()?, step.float()?);
    let count = ((last - first) / by).ceil();
    if count.is_nan() || by == 0.0 {
        return Err("the `step` of an arange cannot be 0".to_owned());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounded just here"
    )]
    let count = count.clamp(0.0, 1e9) as usize;
    budget.charge_array(count)?;
    if let (Some(_), Some(_), Some(_)) = (start.as_integer(), stop.as_integer(), step.as_integer())
    {
        let (first, by) = (start.index("start")?, step.index("step")?);
        let each = |at: usize| {
            let at = i64::try_from(at).ok()?;
            at.checked_mul(by)?.checked_add(first)
        };
        let data = (0..count).map(each).collect::<Option<_>>().ok_or_else(overflow_error)?;
        return Ok(PythonValue::Array(NumpyArray::from_data(ArrayData::Int(data))));
    }
    let delta = (first + by) - first;
    let each = |at: usize| if at == 1 { first + by } else { first + at as f64 * delta };
    Ok(PythonValue::Array(NumpyArray::from_data(ArrayData::Float((0..count).map(each).collect()))))
}

/// Returns an array with one value in all places.
pub(super) fn filled(
    it: &CallArguments,
    value: f64,
    budget: &mut EvalBudget,
) -> Result<PythonValue> {
    let count = usize::try_from(it.value("shape")?.index("shape")?);
    let count = count.map_err(|_| "`shape` must be at least 0".to_owned())?;
    budget.charge_array(count)?;
    Ok(PythonValue::Array(NumpyArray::from_data(ArrayData::Float(vec![value; count]))))
}
