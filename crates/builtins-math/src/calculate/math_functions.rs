//! The functions of Python's module `math`.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::{Signed as _, ToPrimitive as _, Zero as _};
use ruff_python_ast::Operator;

use super::arguments::Arguments;
use super::budget::Budget;
use super::functions::Function;
use super::value::Value;
use super::{floats, operators, whole};

type Result<T> = std::result::Result<T, String>;

/// All of them. `ln` is no name of Python's; it is `log`.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::body("sqrt", &["x"], 1, |it, _| square_root(it)),
    Function::real("cbrt", f64::cbrt),
    Function::real("exp", f64::exp),
    Function::real("exp2", f64::exp2),
    Function::real("expm1", f64::exp_m1),
    Function::body("log", &["x", "base"], 1, |it, _| logarithm(it)),
    Function::body("ln", &["x"], 1, |it, _| logarithm(it)),
    Function::body("log2", &["x"], 1, |it, _| large(it, f64::log2, std::f64::consts::LN_2)),
    Function::body("log10", &["x"], 1, |it, _| large(it, f64::log10, std::f64::consts::LN_10)),
    Function::real("log1p", f64::ln_1p),
    Function::body("pow", &["x", "y"], 2, |it, _| {
        operators::float_power(it.float("x")?, it.float("y")?).map(Value::Float)
    }),
    Function::real("sin", f64::sin),
    Function::real("cos", f64::cos),
    Function::real("tan", f64::tan),
    Function::real("asin", f64::asin),
    Function::real("acos", f64::acos),
    Function::real("atan", f64::atan),
    Function::body("atan2", &["y", "x"], 2, |it, _| {
        Ok(Value::Float(it.float("y")?.atan2(it.float("x")?)))
    }),
    Function::real("sinh", f64::sinh),
    Function::real("cosh", f64::cosh),
    Function::real("tanh", f64::tanh),
    Function::real("asinh", libm::asinh),
    Function::real("acosh", libm::acosh),
    Function::real("atanh", libm::atanh),
    Function::real("degrees", f64::to_degrees),
    Function::real("radians", f64::to_radians),
    Function::real("fabs", f64::abs),
    Function::real("erf", libm::erf),
    Function::real("erfc", libm::erfc),
    Function::body("gamma", &["x"], 1, |it, _| gamma(it)),
    Function::real("lgamma", libm::lgamma),
    Function::body("floor", &["x"], 1, |it, _| to_whole(it, f64::floor)),
    Function::body("ceil", &["x"], 1, |it, _| to_whole(it, f64::ceil)),
    Function::body("trunc", &["x"], 1, |it, _| to_whole(it, f64::trunc)),
    Function::body("fmod", &["x", "y"], 2, |it, _| {
        let (x, y) = (it.float("x")?, it.float("y")?);
        floats::checked(x % y, &[x, y]).map(Value::Float)
    }),
    Function::body("copysign", &["x", "y"], 2, |it, _| {
        Ok(Value::Float(it.float("x")?.copysign(it.float("y")?)))
    }),
    Function::body("hypot", &["*coordinates"], 0, |it, _| hypot(it)),
    Function::body("isqrt", &["n"], 1, |it, _| Ok(Value::Int(it.natural("n")?.sqrt()))),
    Function::body("factorial", &["n"], 1, |it, budget| {
        let n = it.natural("n")?;
        budget.spend(steps(&n, &n))?;
        whole::factorial(&n).map(Value::Int)
    }),
    Function::body("perm", &["n", "k"], 1, |it, budget| {
        let n = it.natural("n")?;
        let k = if it.optional("k").is_some() { it.natural("k")? } else { n.clone() };
        budget.spend(steps(&n, &k))?;
        whole::permutations(&n, &k).map(Value::Int)
    }),
    Function::body("comb", &["n", "k"], 2, |it, budget| {
        let (n, k) = (it.natural("n")?, it.natural("k")?);
        let fewer = (&n - &k).min(k.clone());
        budget.spend(steps(&n, &fewer))?;
        whole::combinations(&n, &k).map(Value::Int)
    }),
    Function::body("gcd", &["*integers"], 0, |it, budget| {
        fold(it, budget, BigInt::ZERO, num_integer::Integer::gcd)
    }),
    Function::body("lcm", &["*integers"], 0, |it, budget| {
        fold(
            it,
            budget,
            BigInt::from(1_u8),
            |a, b| if b.is_zero() { BigInt::ZERO } else { a.lcm(b) },
        )
    }),
    Function::body("prod", &["iterable", "start"], 1, product),
    Function::body("fsum", &["iterable"], 1, |it, _| {
        let items = it.value("iterable")?.items()?;
        let numbers = items.iter().map(Value::float).collect::<Result<Vec<_>>>()?;
        floats::checked(floats::exact_sum(&numbers), &numbers).map(Value::Float)
    }),
    Function::body("isclose", &["a", "b", "rel_tol", "abs_tol"], 2, |it, _| close(it)),
    Function::body("isnan", &["x"], 1, |it, _| Ok(Value::Bool(it.float("x")?.is_nan()))),
    Function::body("isinf", &["x"], 1, |it, _| Ok(Value::Bool(it.float("x")?.is_infinite()))),
    Function::body("isfinite", &["x"], 1, |it, _| Ok(Value::Bool(it.float("x")?.is_finite()))),
];

/// What a product of `k` numbers up to `n` costs.
fn steps(n: &BigInt, k: &BigInt) -> u64 {
    let factors = k.to_u64().unwrap_or(u64::MAX).min(whole::MAX_BITS);
    let words = n.bits().saturating_mul(factors).min(whole::MAX_BITS) / 64 + 2;
    factors * words
}

fn square_root(it: &Arguments) -> Result<Value> {
    let number = it.float("x")?;
    if number < 0.0 {
        return Err("the result is no real number: a root of a negative number".to_owned());
    }
    Ok(Value::Float(number.sqrt()))
}

fn logarithm(it: &Arguments) -> Result<Value> {
    let Value::Float(value) = large(it, f64::ln, 1.0)? else { return Ok(Value::None) };
    if it.optional("base").is_none() {
        return Ok(Value::Float(value));
    }
    let base = it.float("base")?;
    let base = floats::checked(base.ln(), &[base])?;
    if base == 0.0 {
        return Err(operators::DIVISION_BY_ZERO.to_owned());
    }
    Ok(Value::Float(value / base))
}

/// A logarithm, also of whole numbers that are too large for a float. `unit` is ln of its base.
fn large(it: &Arguments, of: fn(f64) -> f64, unit: f64) -> Result<Value> {
    let exact = it.value("x")?.whole().filter(|number| number.bits() > 1_000);
    if let Some(number) = exact.filter(BigInt::is_positive) {
        let places = number.bits() - 64;
        let high = whole::to_float(&(number >> places))?;
        return Ok(Value::Float(of(high) + places as f64 * std::f64::consts::LN_2 / unit));
    }
    let number = it.float("x")?;
    if number <= 0.0 {
        return Err("the result is no real number: a logarithm of 0 or less".to_owned());
    }
    Ok(Value::Float(of(number)))
}

fn gamma(it: &Arguments) -> Result<Value> {
    let number = it.float("x")?;
    if number <= 0.0 && number.fract() == 0.0 {
        return Err(
            "the result is no real number: gamma of 0 or a negative whole number".to_owned()
        );
    }
    floats::checked(libm::tgamma(number), &[number]).map(Value::Float)
}

fn to_whole(it: &Arguments, of: fn(f64) -> f64) -> Result<Value> {
    if let Some(number) = it.value("x")?.whole() {
        return Ok(Value::Int(number));
    }
    whole::truncated(of(it.float("x")?)).map(Value::Int)
}

fn hypot(it: &Arguments) -> Result<Value> {
    let numbers = it.rest.iter().map(Value::float).collect::<Result<Vec<_>>>()?;
    let length = numbers.iter().fold(0.0_f64, |length, number| length.hypot(*number));
    floats::checked(length, &numbers).map(Value::Float)
}

fn fold(
    it: &Arguments,
    budget: &mut Budget,
    start: BigInt,
    of: impl Fn(&BigInt, &BigInt) -> BigInt,
) -> Result<Value> {
    let mut total = start;
    for value in &it.rest {
        let number = value
            .whole()
            .ok_or_else(|| format!("expected whole numbers, found {}", value.kind()))?;
        // The algorithm has a step for each bit.
        let bits = total.bits().max(number.bits());
        budget.spend((bits / 64 + 1).saturating_mul(bits + 1))?;
        total = whole::bounded(of(&total, &number))?.abs();
    }
    Ok(Value::Int(total))
}

fn product(it: &Arguments, budget: &mut Budget) -> Result<Value> {
    let start = it.optional("start").cloned().unwrap_or_else(|| Value::Int(BigInt::from(1_u8)));
    let items = it.value("iterable")?.items()?;
    items
        .iter()
        .try_fold(start, |total, item| operators::binary(Operator::Mult, &total, item, budget))
}

fn close(it: &Arguments) -> Result<Value> {
    let (a, b) = (it.float("a")?, it.float("b")?);
    let (relative, absolute) = (it.float_or("rel_tol", 1e-9)?, it.float_or("abs_tol", 0.0)?);
    if relative < 0.0 || absolute < 0.0 {
        return Err("tolerances must be at least 0".to_owned());
    }
    if operators::equal(&Value::Float(a), &Value::Float(b)) {
        return Ok(Value::Bool(true));
    }
    let difference = (a - b).abs();
    let finite = a.is_finite() && b.is_finite();
    let within = difference <= (relative * a.abs().max(b.abs())).max(absolute);
    Ok(Value::Bool(finite && within))
}
