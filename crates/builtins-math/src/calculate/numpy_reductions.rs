//! NumPy reductions, and functions that run along an array.

use super::arguments::CallArguments;
use super::arrays::{ArrayData, NumpyArray, operand_arrays, overflow_error};
use super::budget::EvalBudget;
use super::floats;
use super::functions::CalculateFunction;
use super::value::PythonValue;

type Result<T> = std::result::Result<T, String>;

/// Functions of this module by name.
pub(super) const FUNCTIONS: &[CalculateFunction] = &[
    CalculateFunction::from_body("sum", &["a", "axis"], 1, |it, _| total(&array(it)?)),
    CalculateFunction::from_body("prod", &["a", "axis"], 1, |it, _| product(&array(it)?)),
    CalculateFunction::from_body("mean", &["a", "axis"], 1, |it, _| {
        let numbers = array(it)?.floats();
        mean(&numbers).map(NumpyArray::float)
    }),
    CalculateFunction::from_body("average", &["a", "axis", "weights"], 1, |it, _| average(it)),
    CalculateFunction::from_body("median", &["a", "axis"], 1, |it, _| {
        median(array(it)?.floats()).map(NumpyArray::float)
    }),
    CalculateFunction::from_body("var", &["a", "axis", "ddof"], 1, |it, _| {
        variance(it).map(NumpyArray::float)
    }),
    CalculateFunction::from_body("std", &["a", "axis", "ddof"], 1, |it, _| {
        variance(it).map(|variance| NumpyArray::float(variance.sqrt()))
    }),
    CalculateFunction::from_body("min", &["a", "axis"], 1, |it, _| extreme(&array(it)?, false)),
    CalculateFunction::from_body("max", &["a", "axis"], 1, |it, _| extreme(&array(it)?, true)),
    CalculateFunction::from_body("amin", &["a", "axis"], 1, |it, _| extreme(&array(it)?, false)),
    CalculateFunction::from_body("amax", &["a", "axis"], 1, |it, _| extreme(&array(it)?, true)),
    CalculateFunction::from_body("ptp", &["a", "axis"], 1, |it, budget| {
        let array = array(it)?;
        let (most, least) = (extreme(&array, true)?, extreme(&array, false)?);
        super::elementwise::apply_binary(ruff_python_ast::Operator::Sub, &most, &least, budget)
    }),
    CalculateFunction::from_body("argmin", &["a", "axis"], 1, |it, _| place(&array(it)?, false)),
    CalculateFunction::from_body("argmax", &["a", "axis"], 1, |it, _| place(&array(it)?, true)),
    CalculateFunction::from_body("any", &["a", "axis"], 1, |it, _| {
        Ok(NumpyArray::bool(array(it)?.bools().into_iter().any(|item| item)))
    }),
    CalculateFunction::from_body("all", &["a", "axis"], 1, |it, _| {
        Ok(NumpyArray::bool(array(it)?.bools().into_iter().all(|item| item)))
    }),
    CalculateFunction::from_body("count_nonzero", &["a", "axis"], 1, |it, _| {
        Ok(PythonValue::Int(array(it)?.bools().into_iter().filter(|item| *item).count().into()))
    }),
    CalculateFunction::from_body("size", &["a"], 1, |it, _| {
        Ok(PythonValue::Int(it.array("a")?.len().into()))
    }),
    CalculateFunction::from_body("percentile", &["a", "q", "axis"], 2, |it, _| {
        quantiles(it, 100.0)
    }),
    CalculateFunction::from_body("quantile", &["a", "q", "axis"], 2, |it, _| quantiles(it, 1.0)),
    CalculateFunction::from_body("cumsum", &["a", "axis"], 1, |it, _| {
        running(&array(it)?, i64::checked_add, |a, b| a + b)
    }),
    CalculateFunction::from_body("cumprod", &["a", "axis"], 1, |it, _| {
        running(&array(it)?, i64::checked_mul, |a, b| a * b)
    }),
    CalculateFunction::from_body("diff", &["a"], 1, difference),
    CalculateFunction::from_body("dot", &["a", "b"], 2, |it, _| {
        let (a, b) = operand_arrays(it.value("a")?, it.value("b")?)?;
        dot(&a, &b)
    }),
    CalculateFunction::from_body("inner", &["a", "b"], 2, |it, _| {
        let (a, b) = operand_arrays(it.value("a")?, it.value("b")?)?;
        dot(&a, &b)
    }),
    CalculateFunction::from_body("linalg.norm", &["a"], 1, |it, _| {
        let numbers = it.array("a")?.floats();
        let squares: Vec<f64> = numbers.iter().map(|number| number * number).collect();
        floats::check_result(floats::pairwise_sum(&squares).sqrt(), &numbers).map(NumpyArray::float)
    }),
    CalculateFunction::from_body("sort", &["a", "axis"], 1, |it, _| Ok(sorted(&array(it)?, false))),
    CalculateFunction::from_body("unique", &["a"], 1, |it, _| Ok(sorted(&array(it)?, true))),
];

/// Returns the array argument, which has one axis only.
fn array(it: &CallArguments) -> Result<NumpyArray> {
    match it.optional("axis").map(|axis| axis.index("axis")).transpose()? {
        None | Some(0 | -1) => it.array("a"),
        Some(axis) => Err(format!("axis {axis} does not exist; arrays have one dimension here")),
    }
}

fn total(array: &NumpyArray) -> Result<PythonValue> {
    if let ArrayData::Float(numbers) = &array.data {
        return floats::check_result(floats::pairwise_sum(numbers), numbers).map(NumpyArray::float);
    }
    let sum = array.ints().into_iter().try_fold(0_i64, i64::checked_add);
    sum.map(NumpyArray::int).ok_or_else(overflow_error)
}

fn product(array: &NumpyArray) -> Result<PythonValue> {
    if let ArrayData::Float(numbers) = &array.data {
        return floats::check_result(numbers.iter().product(), numbers).map(NumpyArray::float);
    }
    let product = array.ints().into_iter().try_fold(1_i64, i64::checked_mul);
    product.map(NumpyArray::int).ok_or_else(overflow_error)
}

fn mean(numbers: &[f64]) -> Result<f64> {
    if numbers.is_empty() {
        return Err("an empty list has no mean".to_owned());
    }
    floats::check_result(floats::pairwise_sum(numbers) / numbers.len() as f64, numbers)
}

fn average(it: &CallArguments) -> Result<PythonValue> {
    let numbers = array(it)?.floats();
    let Some(weights) = it.optional("weights") else {
        return mean(&numbers).map(NumpyArray::float);
    };
    let weights = NumpyArray::from_value(weights)?.floats();
    if weights.len() != numbers.len() {
        return Err(format!("{} weights for {} numbers", weights.len(), numbers.len()));
    }
    let sum = floats::pairwise_sum(&weights);
    if sum == 0.0 {
        return Err("the weights sum to 0".to_owned());
    }
    let weighted: Vec<f64> = numbers.iter().zip(&weights).map(|(x, w)| x * w).collect();
    floats::check_result(floats::pairwise_sum(&weighted) / sum, &numbers).map(NumpyArray::float)
}

fn median(mut numbers: Vec<f64>) -> Result<f64> {
    if numbers.is_empty() {
        return Err("an empty list has no median".to_owned());
    }
    if numbers.iter().any(|number| number.is_nan()) {
        return Ok(f64::NAN);
    }
    numbers.sort_unstable_by(f64::total_cmp);
    let half = numbers.len() / 2;
    let at = |index: usize| numbers.get(index).copied().unwrap_or(f64::NAN);
    if numbers.len() % 2 == 1 {
        return Ok(at(half));
    }
    let both = [at(half.saturating_sub(1)), at(half)];
    mean(&both)
}

fn variance(it: &CallArguments) -> Result<f64> {
    let numbers = array(it)?.floats();
    let freedom = numbers.len() as f64 - it.float_or("ddof", 0.0)?;
    if freedom <= 0.0 {
        return Err(format!("{} numbers are too few for this `ddof`", numbers.len()));
    }
    let mean = mean(&numbers)?;
    let squares: Vec<f64> =
        numbers.iter().map(|number| (number - mean) * (number - mean)).collect();
    floats::check_result(floats::pairwise_sum(&squares) / freedom, &numbers)
}

fn extreme(array: &NumpyArray, largest: bool) -> Result<PythonValue> {
    let at = index_of(array, largest)?;
    let picked = array.take_elements(&[at]);
    Ok(PythonValue::Array(NumpyArray { scalar: true, data: picked.data }))
}

fn place(array: &NumpyArray, largest: bool) -> Result<PythonValue> {
    index_of(array, largest).map(|at| PythonValue::Int(at.into()))
}

/// Returns the index of the first extreme, or of the first NaN.
fn index_of(array: &NumpyArray, largest: bool) -> Result<usize> {
    let empty = || "an empty list has no extremes".to_owned();
    if let ArrayData::Float(numbers) = &array.data {
        if let Some(at) = numbers.iter().position(|number| number.is_nan()) {
            return Ok(at);
        }
        let mut best: Option<(usize, f64)> = None;
        for (at, number) in numbers.iter().enumerate() {
            let better =
                best.is_none_or(|(_, own)| if largest { *number > own } else { *number < own });
            if better {
                best = Some((at, *number));
            }
        }
        return best.map(|(at, _)| at).ok_or_else(empty);
    }
    let numbers = array.ints();
    let wanted = if largest { numbers.iter().max() } else { numbers.iter().min() };
    let wanted = wanted.ok_or_else(empty)?;
    numbers.iter().position(|number| number == wanted).ok_or_else(empty)
}

/// Computes quantiles by linear interpolation between the two nearest elements.
fn quantiles(it: &CallArguments, whole: f64) -> Result<PythonValue> {
    let array = array(it)?;
    if matches!(array.data, ArrayData::Bool(_)) {
        return Err("expected numbers, found truth values".to_owned());
    }
    let mut numbers = array.floats();
    if numbers.is_empty() {
        return Err("an empty list has no quantiles".to_owned());
    }
    let nan = numbers.iter().any(|number| number.is_nan());
    numbers.sort_unstable_by(f64::total_cmp);
    let parts = it.array("q")?;
    let one = |part: f64| {
        if !(0.0..=whole).contains(&part) {
            return Err(format!("`q` must be from 0 to {whole}"));
        }
        if nan {
            return Ok(f64::NAN);
        }
        let place = part / whole * (numbers.len() - 1) as f64;
        Ok(between(&numbers, place))
    };
    let data = parts.floats().into_iter().map(one).collect::<Result<_>>()?;
    Ok(PythonValue::Array(NumpyArray { scalar: parts.scalar, data: ArrayData::Float(data) }))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
fn between(numbers: &[f64], place: f64) -> f64 {
    let at = |index: usize| numbers.get(index.min(numbers.len() - 1)).copied().unwrap_or(f64::NAN);
    let (low, part) = (place.floor() as usize, place.fract());
    let (a, b) = (at(low), at(low + 1));
    let distance = b - a;
    if part >= 0.5 { b - distance * (1.0 - part) } else { a + distance * part }
}

fn running(
    array: &NumpyArray,
    whole: fn(i64, i64) -> Option<i64>,
    real: fn(f64, f64) -> f64,
) -> Result<PythonValue> {
    if let ArrayData::Float(numbers) = &array.data {
        let mut total: Option<f64> = None;
        let each = |number: &f64| {
            let next = total.map_or(*number, |total| real(total, *number));
            let next = floats::check_result(next, &[total.unwrap_or(0.0), *number])?;
            total = Some(next);
            Ok(next)
        };
        let data = numbers.iter().map(each).collect::<Result<_>>()?;
        return Ok(PythonValue::Array(NumpyArray::from_data(ArrayData::Float(data))));
    }
    let mut total: Option<i64> = None;
    let each = |number: i64| {
        total = Some(total.map_or(Some(number), |total| whole(total, number))?);
        total
    };
    let data =
        array.ints().into_iter().map(each).collect::<Option<_>>().ok_or_else(overflow_error)?;
    Ok(PythonValue::Array(NumpyArray::from_data(ArrayData::Int(data))))
}

fn difference(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
    let array = it.array("a")?;
    let count = array.len().saturating_sub(1);
    let (before, after): (Vec<usize>, Vec<usize>) = (0..count).map(|at| (at, at + 1)).unzip();
    let (before, after) = (array.take_elements(&before), array.take_elements(&after));
    let (before, after) = (PythonValue::Array(before), PythonValue::Array(after));
    super::elementwise::apply_binary(ruff_python_ast::Operator::Sub, &after, &before, budget)
}

/// Computes the dot product of two vectors.
pub(super) fn dot(left: &NumpyArray, right: &NumpyArray) -> Result<PythonValue> {
    if left.len() != right.len() && !left.scalar && !right.scalar {
        let (a, b) = (left.len(), right.len());
        return Err(format!("`dot` takes vectors of one length, found {a} and {b}"));
    }
    let factors = if left.is_float() || right.is_float() {
        super::elementwise::apply_as_floats(left, right, |a, b| {
            floats::check_result(a * b, &[a, b])
        })?
    } else {
        super::elementwise::apply_as_integers(left, right, |a, b| {
            a.checked_mul(b).ok_or_else(overflow_error)
        })?
    };
    match factors {
        PythonValue::Array(array) if !left.scalar && !right.scalar => total(&array),
        other => Ok(other),
    }
}

fn sorted(array: &NumpyArray, distinct: bool) -> PythonValue {
    let data = match &array.data {
        ArrayData::Float(items) => {
            let mut items = items.clone();
            items.sort_by(|a, b| a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())));
            if distinct {
                items.dedup_by(|a, b| a.partial_cmp(&b).is_some_and(std::cmp::Ordering::is_eq));
            }
            ArrayData::Float(items)
        }
        ArrayData::Int(items) => {
            let mut items = items.clone();
            items.sort_unstable();
            if distinct {
                items.dedup();
            }
            ArrayData::Int(items)
        }
        ArrayData::Bool(items) => {
            let mut items = items.clone();
            items.sort_unstable();
            if distinct {
                items.dedup();
            }
            ArrayData::Bool(items)
        }
    };
    PythonValue::Array(NumpyArray::from_data(data))
}
