//! Python's own functions.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_traits::{Signed as _, Zero as _};
use ruff_python_ast::Operator;

use super::arguments::Arguments;
use super::budget::Budget;
use super::functions::Function;
use super::value::Value;
use super::{floats, numpy_functions, operators, rounding, whole};

type Result<T> = std::result::Result<T, String>;

/// All of them.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::body("abs", &["x"], 1, |it, _| absolute(it.value("x")?)),
    Function::body("round", &["number", "ndigits"], 1, |it, _| round(it)),
    Function::body("min", &["*values"], 0, |it, _| extreme(it, Ordering::Less)),
    Function::body("max", &["*values"], 0, |it, _| extreme(it, Ordering::Greater)),
    Function::body("sum", &["iterable", "start"], 1, sum),
    Function::body("pow", &["base", "exp", "mod"], 2, pow),
    Function::body("divmod", &["a", "b"], 2, |it, budget| {
        let (a, b) = (it.value("a")?, it.value("b")?);
        let quotient = operators::binary(Operator::FloorDiv, a, b, budget)?;
        let rest = operators::binary(Operator::Mod, a, b, budget)?;
        Ok(Value::List(vec![quotient, rest]))
    }),
    Function::body("int", &["x"], 0, |it, _| int(it)),
    Function::body("float", &["x"], 0, |it, _| float(it)),
    Function::body("bool", &["x"], 0, |it, _| {
        it.optional("x").map_or(Ok(false), Value::truth).map(Value::Bool)
    }),
    Function::body("len", &["x"], 1, |it, _| {
        Ok(Value::Int(BigInt::from(it.value("x")?.items()?.len())))
    }),
    Function::body("range", &["start", "stop", "step"], 1, range),
    Function::body("list", &["x"], 1, |it, _| it.value("x")?.items().map(Value::List)),
    Function::body("tuple", &["x"], 1, |it, _| it.value("x")?.items().map(Value::List)),
    Function::body("sorted", &["iterable", "reverse"], 1, |it, _| sorted(it)),
    Function::body("zip", &["*values"], 0, zip),
    Function::body("enumerate", &["iterable", "start"], 1, enumerate),
    Function::body("any", &["iterable"], 1, |it, _| some(it, true)),
    Function::body("all", &["iterable"], 1, |it, _| {
        some(it, false).map(|found| match found {
            Value::Bool(truth) => Value::Bool(!truth),
            other => other,
        })
    }),
];

/// `abs` of a number or array.
pub(super) fn absolute(value: &Value) -> Result<Value> {
    match value {
        Value::Float(number) => Ok(Value::Float(number.abs())),
        Value::Array(array) => numpy_functions::absolute(array),
        other => match other.whole() {
            Some(number) => Ok(Value::Int(number.abs())),
            None => Err(format!("`abs` does not take {}; write np.abs([…])", other.kind())),
        },
    }
}

fn round(it: &Arguments) -> Result<Value> {
    let number = it.value("number")?;
    let places = it.optional("ndigits").map(|places| places.index("ndigits")).transpose()?;
    let places = places.map(|places| i32::try_from(places.clamp(-20_000, 20_000)).unwrap_or(0));
    if let Value::Array(array) = number
        && (places.is_some() || !array.scalar)
    {
        return numpy_functions::rounded(array, places.unwrap_or(0));
    }
    if let Some(exact) = number.whole() {
        let cut = places.filter(|places| *places < 0).map(i32::unsigned_abs);
        let value = cut.map_or(exact.clone(), |cut| rounding::whole_number(&exact, cut));
        return Ok(Value::Int(value));
    }
    if number.is_sequence() {
        return Err("`round` takes one number; for a list write np.round([…])".to_owned());
    }
    let number = number.float()?;
    match places {
        Some(places) => rounding::float(number, places).map(Value::Float),
        None => whole::truncated(number.round_ties_even()).map(Value::Int),
    }
}

fn values(it: &Arguments) -> Result<Vec<Value>> {
    match it.rest.as_slice() {
        [only] => only.items().map_err(|_| {
            format!("one value is no choice, found {}; give a list or several", only.kind())
        }),
        more => Ok(more.to_vec()),
    }
}

fn extreme(it: &Arguments, wanted: Ordering) -> Result<Value> {
    let mut values = values(it)?.into_iter();
    let first = values.next().ok_or("`min` and `max` take at least one value")?;
    values.try_fold(first, |best, value| {
        let sign = if wanted == Ordering::Less { "<" } else { ">" };
        let better = operators::ordered(&value, &best, sign)? == Some(wanted);
        Ok(if better { value } else { best })
    })
}

/// Exact for whole numbers; floats carry their rounding errors along.
fn sum(it: &Arguments, budget: &mut Budget) -> Result<Value> {
    let mut items = it.value("iterable")?.items()?;
    items.extend(it.optional("start").cloned());
    let plain = |item: &Value| !matches!(item, Value::Array(_) | Value::List(_));
    if items.iter().all(plain) && items.iter().any(|item| matches!(item, Value::Float(_))) {
        let numbers = items.iter().map(Value::float).collect::<Result<Vec<_>>>()?;
        return Ok(Value::Float(floats::compensated_sum(&numbers)));
    }
    items.iter().try_fold(Value::Int(BigInt::ZERO), |total, item| {
        if matches!(item, Value::List(_)) {
            return Err(
                "`sum` of lists is no number; write np.sum or sum(a for b in x for a in b)"
                    .to_owned(),
            );
        }
        operators::binary(Operator::Add, &total, item, budget)
    })
}

fn pow(it: &Arguments, budget: &mut Budget) -> Result<Value> {
    if it.optional("mod").is_none() {
        let (base, exponent) = (it.value("base")?, it.value("exp")?);
        return operators::binary(Operator::Pow, base, exponent, budget);
    }
    let (base, exponent, modulus) = (it.whole("base")?, it.natural("exp")?, it.whole("mod")?);
    if modulus.is_zero() {
        return Err("`pow` needs a `mod` other than 0".to_owned());
    }
    // One product and one remainder for each bit of the exponent.
    let limbs = modulus.bits() / 64 + 1;
    budget.spend(exponent.bits().saturating_mul(4 * limbs * limbs))?;
    Ok(Value::Int(base.modpow(&exponent, &modulus)))
}

fn int(it: &Arguments) -> Result<Value> {
    let Some(value) = it.optional("x") else { return Ok(Value::Int(BigInt::ZERO)) };
    if let Some(number) = value.whole() {
        return Ok(Value::Int(number));
    }
    if let Value::Text(text) = value {
        let number = text.trim().replace('_', "").parse::<BigInt>();
        let number = number.map_err(|_| "`int` reads no such text".to_owned())?;
        return whole::bounded(number).map(Value::Int);
    }
    whole::truncated(value.float()?).map(Value::Int)
}

fn float(it: &Arguments) -> Result<Value> {
    let Some(value) = it.optional("x") else { return Ok(Value::Float(0.0)) };
    if let Value::Text(text) = value {
        let number = text.trim().replace('_', "").parse::<f64>();
        return number.map(Value::Float).map_err(|_| "`float` reads no such text".to_owned());
    }
    value.float().map(Value::Float)
}

fn range(it: &Arguments, budget: &mut Budget) -> Result<Value> {
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
    budget.elements(count)?;
    let numbers = (0..count).scan(start, |next, _| {
        let number = *next;
        *next += step;
        Some(Value::Int(BigInt::from(number)))
    });
    Ok(Value::List(numbers.collect()))
}

fn sorted(it: &Arguments) -> Result<Value> {
    let mut items = it.value("iterable")?.items()?;
    if let Some(other) = items.iter().find(|item| item.is_sequence() || item.float().is_err()) {
        return Err(format!("`sorted` takes numbers, found {}", other.kind()));
    }
    // NaN comes last, so that there is one order.
    let is_nan = |value: &Value| value.float().is_ok_and(f64::is_nan);
    let order = |a: &Value, b: &Value| {
        let order = operators::ordered(&a.plain(), &b.plain(), "<").ok().flatten();
        order.unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
    };
    if it.optional("reverse").map_or(Ok(false), Value::truth)? {
        items.sort_by(|a, b| order(b, a));
    } else {
        items.sort_by(order);
    }
    Ok(Value::List(items))
}

fn zip(it: &Arguments, budget: &mut Budget) -> Result<Value> {
    let lists = it.rest.iter().map(Value::items).collect::<Result<Vec<_>>>()?;
    let count = lists.iter().map(Vec::len).min().unwrap_or(0);
    budget.elements(count.saturating_mul(lists.len()))?;
    let row = |at| Value::List(lists.iter().filter_map(|list| list.get(at).cloned()).collect());
    Ok(Value::List((0..count).map(row).collect()))
}

fn enumerate(it: &Arguments, budget: &mut Budget) -> Result<Value> {
    let items = it.value("iterable")?.items()?;
    budget.elements(items.len().saturating_mul(2))?;
    let start = it.index_or("start", 0)?;
    let row = |(at, item)| Value::List(vec![Value::Int(BigInt::from(start) + at), item]);
    Ok(Value::List(items.into_iter().enumerate().map(row).collect()))
}

/// Whether one of the items is as true as `wanted`.
fn some(it: &Arguments, wanted: bool) -> Result<Value> {
    for item in it.value("iterable")?.items()? {
        if item.truth()? == wanted {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
