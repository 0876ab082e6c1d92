//! Built-in functions of Python, such as `abs` and `sum`.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_traits::{Signed as _, Zero as _};
use ruff_python_ast::Operator;

use super::arguments::CallArguments;
use super::budget::EvalBudget;
use super::functions::CalculateFunction;
use super::value::PythonValue;
use super::{big_integer, floats, numpy_functions, operators, rounding};

type Result<T> = std::result::Result<T, String>;

/// Functions of this module by name.
pub(super) const FUNCTIONS: &[CalculateFunction] = &[
    CalculateFunction::from_body("abs", &["x"], 1, |it, _| absolute(it.value("x")?)),
    CalculateFunction::from_body("round", &["number", "ndigits"], 1, |it, _| round(it)),
    CalculateFunction::from_body("min", &["*values"], 0, |it, _| extreme(it, Ordering::Less)),
    CalculateFunction::from_body("max", &["*values"], 0, |it, _| extreme(it, Ordering::Greater)),
    CalculateFunction::from_body("sum", &["iterable", "start"], 1, sum),
    CalculateFunction::from_body("pow", &["base", "exp", "mod"], 2, pow),
    CalculateFunction::from_body("divmod", &["a", "b"], 2, |it, budget| {
        let (a, b) = (it.value("a")?, it.value("b")?);
        let quotient = operators::apply_binary(Operator::FloorDiv, a, b, budget)?;
        let rest = operators::apply_binary(Operator::Mod, a, b, budget)?;
        Ok(PythonValue::List(vec![quotient, rest]))
    }),
    CalculateFunction::from_body("int", &["x"], 0, |it, _| int(it)),
    CalculateFunction::from_body("float", &["x"], 0, |it, _| float(it)),
    CalculateFunction::from_body("bool", &["x"], 0, |it, _| {
        it.optional("x").map_or(Ok(false), PythonValue::truth).map(PythonValue::Bool)
    }),
    CalculateFunction::from_body("len", &["x"], 1, |it, _| {
        Ok(PythonValue::Int(BigInt::from(it.value("x")?.items()?.len())))
    }),
    CalculateFunction::from_body("range", &["start", "stop", "step"], 1, range),
    CalculateFunction::from_body("list", &["x"], 1, |it, _| {
        it.value("x")?.items().map(PythonValue::List)
    }),
    CalculateFunction::from_body("tuple", &["x"], 1, |it, _| {
        it.value("x")?.items().map(PythonValue::List)
    }),
    CalculateFunction::from_body("sorted", &["iterable", "reverse"], 1, |it, _| sorted(it)),
    CalculateFunction::from_body("zip", &["*values"], 0, zip),
    CalculateFunction::from_body("enumerate", &["iterable", "start"], 1, enumerate),
    CalculateFunction::from_body("any", &["iterable"], 1, |it, _| some(it, true)),
    CalculateFunction::from_body("all", &["iterable"], 1, |it, _| {
        some(it, false).map(|found| match found {
            PythonValue::Bool(truth) => PythonValue::Bool(!truth),
            other => other,
        })
    }),
];

/// Computes `abs` of a number or array.
pub(super) fn absolute(value: &PythonValue) -> Result<PythonValue> {
    match value {
        PythonValue::Float(number) => Ok(PythonValue::Float(number.abs())),
        PythonValue::Array(array) => numpy_functions::absolute(array),
        other => match other.as_integer() {
            Some(number) => Ok(PythonValue::Int(number.abs())),
            None => Err(format!("`abs` does not take {}; write np.abs([…])", other.kind())),
        },
    }
}

fn round(it: &CallArguments) -> Result<PythonValue> {
    let number = it.value("number")?;
    let places = it.optional("ndigits").map(|places| places.index("ndigits")).transpose()?;
    let places = places.map(|places| i32::try_from(places.clamp(-20_000, 20_000)).unwrap_or(0));
    if let PythonValue::Array(array) = number
        && (places.is_some() || !array.scalar)
    {
        return numpy_functions::rounded(array, places.unwrap_or(0));
    }
    if let Some(exact) = number.as_integer() {
        let cut = places.filter(|places| *places < 0).map(i32::unsigned_abs);
        let value = cut.map_or(exact.clone(), |cut| rounding::round_integer(&exact, cut));
        return Ok(PythonValue::Int(value));
    }
    if number.is_sequence() {
        return Err("`round` takes one number; for a list write np.round([…])".to_owned());
    }
    let number = number.float()?;
    match places {
        Some(places) => rounding::round_float(number, places).map(PythonValue::Float),
        None => big_integer::truncate_float(number.round_ties_even()).map(PythonValue::Int),
    }
}

fn values(it: &CallArguments) -> Result<Vec<PythonValue>> {
    match it.rest.as_slice() {
        [only] => only
            .items()
            .map_err(|_| format!("expected a list or several values, found {}", only.kind())),
        more => Ok(more.to_vec()),
    }
}

fn extreme(it: &CallArguments, wanted: Ordering) -> Result<PythonValue> {
    let mut values = values(it)?.into_iter();
    let first = values.next().ok_or("`min` and `max` take at least one value")?;
    values.try_fold(first, |best, value| {
        let sign = if wanted == Ordering::Less { "<" } else { ">" };
        let better = operators::order_values(&value, &best, sign)? == Some(wanted);
        Ok(if better { value } else { best })
    })
}

/// Sums exactly for integers, and with compensation for floats.
fn sum(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
    let mut items = it.value("iterable")?.items()?;
    items.extend(it.optional("start").cloned());
    let plain = |item: &PythonValue| !matches!(item, PythonValue::Array(_) | PythonValue::List(_));
    if items.iter().all(plain) && items.iter().any(|item| matches!(item, PythonValue::Float(_))) {
        let numbers = items.iter().map(PythonValue::float).collect::<Result<Vec<_>>>()?;
        return Ok(PythonValue::Float(floats::compensated_sum(&numbers)));
    }
    items.iter().try_fold(PythonValue::Int(BigInt::ZERO), |total, item| {
        if matches!(item, PythonValue::List(_)) {
            return Err(
                "`sum` of lists is not a number; write np.sum or sum(a for b in x for a in b)"
                    .to_owned(),
            );
        }
        operators::apply_binary(Operator::Add, &total, item, budget)
    })
}

fn pow(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
    if it.optional("mod").is_none() {
        let (base, exponent) = (it.value("base")?, it.value("exp")?);
        return operators::apply_binary(Operator::Pow, base, exponent, budget);
    }
    let (base, exponent, modulus) =
        (it.integer("base")?, it.nonnegative_integer("exp")?, it.integer("mod")?);
    if modulus.is_zero() {
        return Err("`pow` needs a `mod` other than 0".to_owned());
    }
    // One product and one remainder per bit of the exponent.
    let limbs = modulus.bits() / 64 + 1;
    budget.charge_units(exponent.bits().saturating_mul(4 * limbs * limbs))?;
    Ok(PythonValue::Int(base.modpow(&exponent, &modulus)))
}

fn int(it: &CallArguments) -> Result<PythonValue> {
    let Some(value) = it.optional("x") else { return Ok(PythonValue::Int(BigInt::ZERO)) };
    if let Some(number) = value.as_integer() {
        return Ok(PythonValue::Int(number));
    }
    if let PythonValue::Text(text) = value {
        let number = text.trim().replace('_', "").parse::<BigInt>();
        let number = number.map_err(|_| "`int` cannot parse this text".to_owned())?;
        return big_integer::check_digits(number).map(PythonValue::Int);
    }
    big_integer::truncate_float(value.float()?).map(PythonValue::Int)
}

fn float(it: &CallArguments) -> Result<PythonValue> {
    let Some(value) = it.optional("x") else { return Ok(PythonValue::Float(0.0)) };
    if let PythonValue::Text(text) = value {
        let number = text.trim().replace('_', "").parse::<f64>();
        return number.map(PythonValue::Float).map_err(|_| {
            "`float` cannot parse this \
            text"
                .to_owned()
        });
    }
    value.float().map(PythonValue::Float)
}

fn range(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
    let (start, stop) = match it.optional("stop") {
        Some(stop) => (it.value("start")?.index("start")?, stop.index("stop")?),
        None => (0, it.value("start")?.index("stop")?),
    };
    let step = it.index_or("step", 1)?;
    if step == 0 {
        return Err("the `step` of a range cannot be 0".to_owned());
    }
    let (start, stop, step) = (i128::from(start), i128::from(stop), i128::from(step));
    let span = if step > 0 { stop - start } else { start - stop };
    let count = if span <= 0 { 0 } else { (span - 1).div_euclid(step.abs()) + 1 };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    budget.charge_elements(count)?;
    let numbers = (0..count).scan(start, |next, _| {
        let number = *next;
        *next += step;
        Some(PythonValue::Int(BigInt::from(number)))
    });
    Ok(PythonValue::List(numbers.collect()))
}

fn sorted(it: &CallArguments) -> Result<PythonValue> {
    let mut items = it.value("iterable")?.items()?;
    if let Some(other) = items.iter().find(|item| item.is_sequence() || item.float().is_err()) {
        return Err(format!("`sorted` takes numbers, found {}", other.kind()));
    }
    // NaN comes last, so that the order is total.
    let is_nan = |value: &PythonValue| value.float().is_ok_and(f64::is_nan);
    let order = |a: &PythonValue, b: &PythonValue| {
        let order = operators::order_values(&a.to_python_number(), &b.to_python_number(), "<")
            .ok()
            .flatten();
        order.unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
    };
    if it.optional("reverse").map_or(Ok(false), PythonValue::truth)? {
        items.sort_by(|a, b| order(b, a));
    } else {
        items.sort_by(order);
    }
    Ok(PythonValue::List(items))
}

fn zip(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
    let lists = it.rest.iter().map(PythonValue::items).collect::<Result<Vec<_>>>()?;
    let count = lists.iter().map(Vec::len).min().unwrap_or(0);
    budget.charge_elements(count.saturating_mul(lists.len()))?;
    let row =
        |at| PythonValue::List(lists.iter().filter_map(|list| list.get(at).cloned()).collect());
    Ok(PythonValue::List((0..count).map(row).collect()))
}

fn enumerate(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
    let items = it.value("iterable")?.items()?;
    budget.charge_elements(items.len().saturating_mul(2))?;
    let start = it.index_or("start", 0)?;
    let row =
        |(at, item)| PythonValue::List(vec![PythonValue::Int(BigInt::from(start) + at), item]);
    Ok(PythonValue::List(items.into_iter().enumerate().map(row).collect()))
}

/// Whether any item has the truth value `wanted`.
fn some(it: &CallArguments, wanted: bool) -> Result<PythonValue> {
    for item in it.value("iterable")?.items()? {
        if item.truth()? == wanted {
            return Ok(PythonValue::Bool(true));
        }
    }
    Ok(PythonValue::Bool(false))
}
