//! numpy's functions that make one number of many, and those that go along an array.

use super::arguments::Arguments;
use super::arrays::{Array, Data, overflow, pair};
use super::budget::Budget;
use super::floats;
use super::functions::Function;
use super::value::Value;

type Result<T> = std::result::Result<T, String>;

/// All of them.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::body("sum", &["a", "axis"], 1, |it, _| total(&array(it)?)),
    Function::body("prod", &["a", "axis"], 1, |it, _| product(&array(it)?)),
    Function::body("mean", &["a", "axis"], 1, |it, _| {
        let numbers = array(it)?.floats();
        mean(&numbers).map(Array::float)
    }),
    Function::body("average", &["a", "axis", "weights"], 1, |it, _| average(it)),
    Function::body("median", &["a", "axis"], 1, |it, _| {
        median(array(it)?.floats()).map(Array::float)
    }),
    Function::body("var", &["a", "axis", "ddof"], 1, |it, _| variance(it).map(Array::float)),
    Function::body("std", &["a", "axis", "ddof"], 1, |it, _| {
        variance(it).map(|variance| Array::float(variance.sqrt()))
    }),
    Function::body("min", &["a", "axis"], 1, |it, _| extreme(&array(it)?, false)),
    Function::body("max", &["a", "axis"], 1, |it, _| extreme(&array(it)?, true)),
    Function::body("amin", &["a", "axis"], 1, |it, _| extreme(&array(it)?, false)),
    Function::body("amax", &["a", "axis"], 1, |it, _| extreme(&array(it)?, true)),
    Function::body("ptp", &["a", "axis"], 1, |it, budget| {
        let array = array(it)?;
        let (most, least) = (extreme(&array, true)?, extreme(&array, false)?);
        super::elementwise::binary(ruff_python_ast::Operator::Sub, &most, &least, budget)
    }),
    Function::body("argmin", &["a", "axis"], 1, |it, _| place(&array(it)?, false)),
    Function::body("argmax", &["a", "axis"], 1, |it, _| place(&array(it)?, true)),
    Function::body("any", &["a", "axis"], 1, |it, _| {
        Ok(Array::bool(array(it)?.bools().into_iter().any(|item| item)))
    }),
    Function::body("all", &["a", "axis"], 1, |it, _| {
        Ok(Array::bool(array(it)?.bools().into_iter().all(|item| item)))
    }),
    Function::body("count_nonzero", &["a", "axis"], 1, |it, _| {
        Ok(Value::Int(array(it)?.bools().into_iter().filter(|item| *item).count().into()))
    }),
    Function::body("size", &["a"], 1, |it, _| Ok(Value::Int(it.array("a")?.len().into()))),
    Function::body("percentile", &["a", "q", "axis"], 2, |it, _| quantiles(it, 100.0)),
    Function::body("quantile", &["a", "q", "axis"], 2, |it, _| quantiles(it, 1.0)),
    Function::body("cumsum", &["a", "axis"], 1, |it, _| {
        running(&array(it)?, i64::checked_add, |a, b| a + b)
    }),
    Function::body("cumprod", &["a", "axis"], 1, |it, _| {
        running(&array(it)?, i64::checked_mul, |a, b| a * b)
    }),
    Function::body("diff", &["a"], 1, difference),
    Function::body("dot", &["a", "b"], 2, |it, _| {
        let (a, b) = pair(it.value("a")?, it.value("b")?)?;
        dot(&a, &b)
    }),
    Function::body("inner", &["a", "b"], 2, |it, _| {
        let (a, b) = pair(it.value("a")?, it.value("b")?)?;
        dot(&a, &b)
    }),
    Function::body("linalg.norm", &["a"], 1, |it, _| {
        let numbers = it.array("a")?.floats();
        let squares: Vec<f64> = numbers.iter().map(|number| number * number).collect();
        floats::checked(floats::pairwise_sum(&squares).sqrt(), &numbers).map(Array::float)
    }),
    Function::body("sort", &["a", "axis"], 1, |it, _| Ok(sorted(&array(it)?, false))),
    Function::body("unique", &["a"], 1, |it, _| Ok(sorted(&array(it)?, true))),
];

/// The array, of which there is one axis only.
fn array(it: &Arguments) -> Result<Array> {
    match it.optional("axis").map(|axis| axis.index("axis")).transpose()? {
        None | Some(0 | -1) => it.array("a"),
        Some(axis) => Err(format!("axis {axis} is not there; arrays have one dimension here")),
    }
}

fn total(array: &Array) -> Result<Value> {
    if let Data::Float(numbers) = &array.data {
        return floats::checked(floats::pairwise_sum(numbers), numbers).map(Array::float);
    }
    let sum = array.ints().into_iter().try_fold(0_i64, i64::checked_add);
    sum.map(Array::int).ok_or_else(overflow)
}

fn product(array: &Array) -> Result<Value> {
    if let Data::Float(numbers) = &array.data {
        return floats::checked(numbers.iter().product(), numbers).map(Array::float);
    }
    let product = array.ints().into_iter().try_fold(1_i64, i64::checked_mul);
    product.map(Array::int).ok_or_else(overflow)
}

fn mean(numbers: &[f64]) -> Result<f64> {
    if numbers.is_empty() {
        return Err("an empty list has no mean".to_owned());
    }
    floats::checked(floats::pairwise_sum(numbers) / numbers.len() as f64, numbers)
}

fn average(it: &Arguments) -> Result<Value> {
    let numbers = array(it)?.floats();
    let Some(weights) = it.optional("weights") else { return mean(&numbers).map(Array::float) };
    let weights = Array::from_value(weights)?.floats();
    if weights.len() != numbers.len() {
        return Err(format!("{} weights for {} numbers", weights.len(), numbers.len()));
    }
    let sum = floats::pairwise_sum(&weights);
    if sum == 0.0 {
        return Err("the weights sum to 0".to_owned());
    }
    let weighted: Vec<f64> = numbers.iter().zip(&weights).map(|(x, w)| x * w).collect();
    floats::checked(floats::pairwise_sum(&weighted) / sum, &numbers).map(Array::float)
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

fn variance(it: &Arguments) -> Result<f64> {
    let numbers = array(it)?.floats();
    let freedom = numbers.len() as f64 - it.float_or("ddof", 0.0)?;
    if freedom <= 0.0 {
        return Err(format!("{} numbers are too few for this `ddof`", numbers.len()));
    }
    let mean = mean(&numbers)?;
    let squares: Vec<f64> =
        numbers.iter().map(|number| (number - mean) * (number - mean)).collect();
    floats::checked(floats::pairwise_sum(&squares) / freedom, &numbers)
}

fn extreme(array: &Array, largest: bool) -> Result<Value> {
    let at = index_of(array, largest)?;
    let picked = array.picked(&[at]);
    Ok(Value::Array(Array { scalar: true, data: picked.data }))
}

fn place(array: &Array, largest: bool) -> Result<Value> {
    index_of(array, largest).map(|at| Value::Int(at.into()))
}

/// Where the first extreme is, or the first NaN.
fn index_of(array: &Array, largest: bool) -> Result<usize> {
    let empty = || "an empty list has no extremes".to_owned();
    if let Data::Float(numbers) = &array.data {
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

/// Between the two nearest, in proportion.
fn quantiles(it: &Arguments, whole: f64) -> Result<Value> {
    let array = array(it)?;
    if matches!(array.data, Data::Bool(_)) {
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
    Ok(Value::Array(Array { scalar: parts.scalar, data: Data::Float(data) }))
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
    array: &Array,
    whole: fn(i64, i64) -> Option<i64>,
    real: fn(f64, f64) -> f64,
) -> Result<Value> {
    if let Data::Float(numbers) = &array.data {
        let mut total: Option<f64> = None;
        let each = |number: &f64| {
            let next = total.map_or(*number, |total| real(total, *number));
            let next = floats::checked(next, &[total.unwrap_or(0.0), *number])?;
            total = Some(next);
            Ok(next)
        };
        let data = numbers.iter().map(each).collect::<Result<_>>()?;
        return Ok(Value::Array(Array::of(Data::Float(data))));
    }
    let mut total: Option<i64> = None;
    let each = |number: i64| {
        total = Some(total.map_or(Some(number), |total| whole(total, number))?);
        total
    };
    let data = array.ints().into_iter().map(each).collect::<Option<_>>().ok_or_else(overflow)?;
    Ok(Value::Array(Array::of(Data::Int(data))))
}

fn difference(it: &Arguments, budget: &mut Budget) -> Result<Value> {
    let array = it.array("a")?;
    let count = array.len().saturating_sub(1);
    let (before, after): (Vec<usize>, Vec<usize>) = (0..count).map(|at| (at, at + 1)).unzip();
    let (before, after) = (array.picked(&before), array.picked(&after));
    let (before, after) = (Value::Array(before), Value::Array(after));
    super::elementwise::binary(ruff_python_ast::Operator::Sub, &after, &before, budget)
}

/// The sum of the products.
pub(super) fn dot(left: &Array, right: &Array) -> Result<Value> {
    if left.len() != right.len() && !left.scalar && !right.scalar {
        let (a, b) = (left.len(), right.len());
        return Err(format!("`dot` takes vectors of one length, found {a} and {b}"));
    }
    let factors = if left.is_float() || right.is_float() {
        super::elementwise::reals(left, right, |a, b| floats::checked(a * b, &[a, b]))?
    } else {
        super::elementwise::wholes(left, right, |a, b| a.checked_mul(b).ok_or_else(overflow))?
    };
    match factors {
        Value::Array(array) if !left.scalar && !right.scalar => total(&array),
        other => Ok(other),
    }
}

fn sorted(array: &Array, distinct: bool) -> Value {
    let data = match &array.data {
        Data::Float(items) => {
            let mut items = items.clone();
            items.sort_by(|a, b| a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())));
            if distinct {
                items.dedup_by(|a, b| a.partial_cmp(&b).is_some_and(std::cmp::Ordering::is_eq));
            }
            Data::Float(items)
        }
        Data::Int(items) => {
            let mut items = items.clone();
            items.sort_unstable();
            if distinct {
                items.dedup();
            }
            Data::Int(items)
        }
        Data::Bool(items) => {
            let mut items = items.clone();
            items.sort_unstable();
            if distinct {
                items.dedup();
            }
            Data::Bool(items)
        }
    };
    Value::Array(Array::of(data))
}
