//! Functions of Python's `math` module.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_traits::{Signed as _, ToPrimitive as _, Zero as _};
use ruff_python_ast::Operator;

use super::arguments::CallArguments;
use super::budget::EvalBudget;
use super::functions::CalculateFunction;
use super::value::PythonValue;
use super::{big_integer, floats, operators};

type Result<T> = std::result::Result<T, String>;

/// All `math` functions. `ln` does not exist in Python; it stands for `log`.
pub(super) const FUNCTIONS: &[CalculateFunction] = &[
    CalculateFunction::body("sqrt", &["x"], 1, |it, _| square_root(it)),
    CalculateFunction::real("cbrt", f64::cbrt),
    CalculateFunction::real("exp", f64::exp),
    CalculateFunction::real("exp2", f64::exp2),
    CalculateFunction::real("expm1", f64::exp_m1),
    CalculateFunction::body("log", &["x", "base"], 1, |it, _| logarithm(it)),
    CalculateFunction::body("ln", &["x"], 1, |it, _| logarithm(it)),
    CalculateFunction::body("log2", &["x"], 1, |it, _| {
        large(it, f64::log2, std::f64::consts::LN_2)
    }),
    CalculateFunction::body("log10", &["x"], 1, |it, _| {
        large(it, f64::log10, std::f64::consts::LN_10)
    }),
    CalculateFunction::real("log1p", f64::ln_1p),
    CalculateFunction::body("pow", &["x", "y"], 2, |it, _| {
        operators::float_power(it.float("x")?, it.float("y")?).map(PythonValue::Float)
    }),
    CalculateFunction::real("sin", f64::sin),
    CalculateFunction::real("cos", f64::cos),
    CalculateFunction::real("tan", f64::tan),
    CalculateFunction::real("asin", f64::asin),
    CalculateFunction::real("acos", f64::acos),
    CalculateFunction::real("atan", f64::atan),
    CalculateFunction::body("atan2", &["y", "x"], 2, |it, _| {
        Ok(PythonValue::Float(it.float("y")?.atan2(it.float("x")?)))
    }),
    CalculateFunction::real("sinh", f64::sinh),
    CalculateFunction::real("cosh", f64::cosh),
    CalculateFunction::real("tanh", f64::tanh),
    CalculateFunction::real("asinh", libm::asinh),
    CalculateFunction::real("acosh", libm::acosh),
    CalculateFunction::real("atanh", libm::atanh),
    CalculateFunction::real("degrees", f64::to_degrees),
    CalculateFunction::real("radians", f64::to_radians),
    CalculateFunction::real("fabs", f64::abs),
    CalculateFunction::real("erf", libm::erf),
    CalculateFunction::real("erfc", libm::erfc),
    CalculateFunction::body("gamma", &["x"], 1, |it, _| gamma(it)),
    CalculateFunction::real("lgamma", libm::lgamma),
    CalculateFunction::body("floor", &["x"], 1, |it, _| to_whole(it, f64::floor)),
    CalculateFunction::body("ceil", &["x"], 1, |it, _| to_whole(it, f64::ceil)),
    CalculateFunction::body("trunc", &["x"], 1, |it, _| to_whole(it, f64::trunc)),
    CalculateFunction::body("fmod", &["x", "y"], 2, |it, _| {
        let (x, y) = (it.float("x")?, it.float("y")?);
        floats::checked(x % y, &[x, y]).map(PythonValue::Float)
    }),
    CalculateFunction::body("copysign", &["x", "y"], 2, |it, _| {
        Ok(PythonValue::Float(it.float("x")?.copysign(it.float("y")?)))
    }),
    CalculateFunction::body("hypot", &["*coordinates"], 0, |it, _| hypot(it)),
    CalculateFunction::body("isqrt", &["n"], 1, |it, _| {
        Ok(PythonValue::Int(it.natural("n")?.sqrt()))
    }),
    CalculateFunction::body("factorial", &["n"], 1, |it, budget| {
        let n = it.natural("n")?;
        budget.spend(steps(&n, &n))?;
        big_integer::factorial(&n).map(PythonValue::Int)
    }),
    CalculateFunction::body("perm", &["n", "k"], 1, |it, budget| {
        let n = it.natural("n")?;
        let k = if it.optional("k").is_some() { it.natural("k")? } else { n.clone() };
        budget.spend(steps(&n, &k))?;
        big_integer::permutations(&n, &k).map(PythonValue::Int)
    }),
    CalculateFunction::body("comb", &["n", "k"], 2, |it, budget| {
        let (n, k) = (it.natural("n")?, it.natural("k")?);
        let fewer = (&n - &k).min(k.clone());
        budget.spend(steps(&n, &fewer))?;
        big_integer::combinations(&n, &k).map(PythonValue::Int)
    }),
    CalculateFunction::body("gcd", &["*integers"], 0, |it, budget| {
        fold(it, budget, BigInt::ZERO, num_integer::Integer::gcd)
    }),
    CalculateFunction::body("lcm", &["*integers"], 0, |it, budget| {
        fold(
            it,
            budget,
            BigInt::from(1_u8),
            |a, b| if b.is_zero() { BigInt::ZERO } else { a.lcm(b) },
        )
    }),
    CalculateFunction::body("prod", &["iterable", "start"], 1, product),
    CalculateFunction::body("fsum", &["iterable"], 1, |it, _| {
        let items = it.value("iterable")?.items()?;
        let numbers = items.iter().map(PythonValue::float).collect::<Result<Vec<_>>>()?;
        floats::checked(floats::exact_sum(&numbers), &numbers).map(PythonValue::Float)
    }),
    CalculateFunction::body("isclose", &["a", "b", "rel_tol", "abs_tol"], 2, |it, _| close(it)),
    CalculateFunction::body("isnan", &["x"], 1, |it, _| {
        Ok(PythonValue::Bool(it.float("x")?.is_nan()))
    }),
    CalculateFunction::body("isinf", &["x"], 1, |it, _| {
        Ok(PythonValue::Bool(it.float("x")?.is_infinite()))
    }),
    CalculateFunction::body("isfinite", &["x"], 1, |it, _| {
        Ok(PythonValue::Bool(it.float("x")?.is_finite()))
    }),
];

/// Cost of a product of `k` integers up to `n`.
fn steps(n: &BigInt, k: &BigInt) -> u64 {
    let factors = k.to_u64().unwrap_or(u64::MAX).min(big_integer::MAX_BITS);
    let words = n.bits().saturating_mul(factors).min(big_integer::MAX_BITS) / 64 + 2;
    factors * words
}

fn square_root(it: &CallArguments) -> Result<PythonValue> {
    let number = it.float("x")?;
    if number < 0.0 {
        return Err("the result is not a real number: a root of a negative number".to_owned());
    }
    Ok(PythonValue::Float(number.sqrt()))
}

fn logarithm(it: &CallArguments) -> Result<PythonValue> {
    let PythonValue::Float(value) = large(it, f64::ln, 1.0)? else { return Ok(PythonValue::None) };
    if it.optional("base").is_none() {
        return Ok(PythonValue::Float(value));
    }
    let base = it.float("base")?;
    let base = floats::checked(base.ln(), &[base])?;
    if base == 0.0 {
        return Err(operators::DIVISION_BY_ZERO.to_owned());
    }
    Ok(PythonValue::Float(value / base))
}

/// Logarithm, also of integers that are too large for a float. `unit` is ln of its base.
fn large(it: &CallArguments, of: fn(f64) -> f64, unit: f64) -> Result<PythonValue> {
    let exact = it.value("x")?.whole().filter(|number| number.bits() > 1_000);
    if let Some(number) = exact.filter(BigInt::is_positive) {
        let places = number.bits() - 64;
        let high = big_integer::to_float(&(number >> places))?;
        return Ok(PythonValue::Float(of(high) + places as f64 * std::f64::consts::LN_2 / unit));
    }
    let number = it.float("x")?;
    if number <= 0.0 {
        return Err("the result is not a real number: a logarithm of 0 or less".to_owned());
    }
    Ok(PythonValue::Float(of(number)))
}

fn gamma(it: &CallArguments) -> Result<PythonValue> {
    let number = it.float("x")?;
    if number <= 0.0 && number.fract() == 0.0 {
        return Err(
            "the result is not a real number: gamma of 0 or a negative whole number".to_owned()
        );
    }
    floats::checked(libm::tgamma(number), &[number]).map(PythonValue::Float)
}

fn to_whole(it: &CallArguments, of: fn(f64) -> f64) -> Result<PythonValue> {
    if let Some(number) = it.value("x")?.whole() {
        return Ok(PythonValue::Int(number));
    }
    big_integer::truncated(of(it.float("x")?)).map(PythonValue::Int)
}

fn hypot(it: &CallArguments) -> Result<PythonValue> {
    let numbers = it.rest.iter().map(PythonValue::float).collect::<Result<Vec<_>>>()?;
    let length = numbers.iter().fold(0.0_f64, |length, number| length.hypot(*number));
    floats::checked(length, &numbers).map(PythonValue::Float)
}

fn fold(
    it: &CallArguments,
    budget: &mut EvalBudget,
    start: BigInt,
    of: impl Fn(&BigInt, &BigInt) -> BigInt,
) -> Result<PythonValue> {
    let mut total = start;
    for value in &it.rest {
        let number = value
            .whole()
            .ok_or_else(|| format!("expected whole numbers, found {}", value.kind()))?;
        // The algorithm has one step per bit.
        let bits = total.bits().max(number.bits());
        budget.spend((bits / 64 + 1).saturating_mul(bits + 1))?;
        total = big_integer::bounded(of(&total, &number))?.abs();
    }
    Ok(PythonValue::Int(total))
}

fn product(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
    let start =
        it.optional("start").cloned().unwrap_or_else(|| PythonValue::Int(BigInt::from(1_u8)));
    let items = it.value("iterable")?.items()?;
    items.iter().try_fold(start, |total, item| {
        operators::apply_binary(Operator::Mult, &total, item, budget)
    })
}

fn close(it: &CallArguments) -> Result<PythonValue> {
    let (a, b) = (it.float("a")?, it.float("b")?);
    let (relative, absolute) = (it.float_or("rel_tol", 1e-9)?, it.float_or("abs_tol", 0.0)?);
    if relative < 0.0 || absolute < 0.0 {
        return Err("tolerances must be at least 0".to_owned());
    }
    if operators::values_equal(&PythonValue::Float(a), &PythonValue::Float(b)) {
        return Ok(PythonValue::Bool(true));
    }
    let difference = (a - b).abs();
    let finite = a.is_finite() && b.is_finite();
    let within = difference <= (relative * a.abs().max(b.abs())).max(absolute);
    Ok(PythonValue::Bool(finite && within))
}
