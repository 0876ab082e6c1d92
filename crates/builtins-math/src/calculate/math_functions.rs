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
    CalculateFunction::from_body("sqrt", &["x"], 1, |it, _| square_root(it)),
    CalculateFunction::from_real_function("cbrt", f64::cbrt),
    CalculateFunction::from_real_function("exp", f64::exp),
    CalculateFunction::from_real_function("exp2", f64::exp2),
    CalculateFunction::from_real_function("expm1", f64::exp_m1),
    CalculateFunction::from_body("log", &["x", "base"], 1, |it, _| logarithm(it)),
    CalculateFunction::from_body("ln", &["x"], 1, |it, _| logarithm(it)),
    CalculateFunction::from_body("log2", &["x"], 1, |it, _| {
        large(it, f64::log2, std::f64::consts::LN_2)
    }),
    CalculateFunction::from_body("log10", &["x"], 1, |it, _| {
        large(it, f64::log10, std::f64::consts::LN_10)
    }),
    CalculateFunction::from_real_function("log1p", f64::ln_1p),
    CalculateFunction::from_body("pow", &["x", "y"], 2, |it, _| {
        operators::float_power(it.float("x")?, it.float("y")?).map(PythonValue::Float)
    }),
    CalculateFunction::from_real_function("sin", f64::sin),
    CalculateFunction::from_real_function("cos", f64::cos),
    CalculateFunction::from_real_function("tan", f64::tan),
    CalculateFunction::from_real_function("asin", f64::asin),
    CalculateFunction::from_real_function("acos", f64::acos),
    CalculateFunction::from_real_function("atan", f64::atan),
    CalculateFunction::from_body("atan2", &["y", "x"], 2, |it, _| {
        Ok(PythonValue::Float(it.float("y")?.atan2(it.float("x")?)))
    }),
    CalculateFunction::from_real_function("sinh", f64::sinh),
    CalculateFunction::from_real_function("cosh", f64::cosh),
    CalculateFunction::from_real_function("tanh", f64::tanh),
    CalculateFunction::from_real_function("asinh", libm::asinh),
    CalculateFunction::from_real_function("acosh", libm::acosh),
    CalculateFunction::from_real_function("atanh", libm::atanh),
    CalculateFunction::from_real_function("degrees", f64::to_degrees),
    CalculateFunction::from_real_function("radians", f64::to_radians),
    CalculateFunction::from_real_function("fabs", f64::abs),
    CalculateFunction::from_real_function("erf", libm::erf),
    CalculateFunction::from_real_function("erfc", libm::erfc),
    CalculateFunction::from_body("gamma", &["x"], 1, |it, _| gamma(it)),
    CalculateFunction::from_real_function("lgamma", libm::lgamma),
    CalculateFunction::from_body("floor", &["x"], 1, |it, _| to_whole(it, f64::floor)),
    CalculateFunction::from_body("ceil", &["x"], 1, |it, _| to_whole(it, f64::ceil)),
    CalculateFunction::from_body("trunc", &["x"], 1, |it, _| to_whole(it, f64::trunc)),
    CalculateFunction::from_body("fmod", &["x", "y"], 2, |it, _| {
        let (x, y) = (it.float("x")?, it.float("y")?);
        floats::check_result(x % y, &[x, y]).map(PythonValue::Float)
    }),
    CalculateFunction::from_body("copysign", &["x", "y"], 2, |it, _| {
        Ok(PythonValue::Float(it.float("x")?.copysign(it.float("y")?)))
    }),
    CalculateFunction::from_body("hypot", &["*coordinates"], 0, |it, _| hypot(it)),
    CalculateFunction::from_body("isqrt", &["n"], 1, |it, _| {
        Ok(PythonValue::Int(it.nonnegative_integer("n")?.sqrt()))
    }),
    CalculateFunction::from_body("factorial", &["n"], 1, |it, budget| {
        let n = it.nonnegative_integer("n")?;
        budget.charge_units(steps(&n, &n))?;
        big_integer::factorial(&n).map(PythonValue::Int)
    }),
    CalculateFunction::from_body("perm", &["n", "k"], 1, |it, budget| {
        let n = it.nonnegative_integer("n")?;
        let k = if it.optional("k").is_some() { it.nonnegative_integer("k")? } else { n.clone() };
        budget.charge_units(steps(&n, &k))?;
        big_integer::permutations(&n, &k).map(PythonValue::Int)
    }),
    CalculateFunction::from_body("comb", &["n", "k"], 2, |it, budget| {
        let (n, k) = (it.nonnegative_integer("n")?, it.nonnegative_integer("k")?);
        let fewer = (&n - &k).min(k.clone());
        budget.charge_units(steps(&n, &fewer))?;
        big_integer::combinations(&n, &k).map(PythonValue::Int)
    }),
    CalculateFunction::from_body("gcd", &["*integers"], 0, |it, budget| {
        fold(it, budget, BigInt::ZERO, num_integer::Integer::gcd)
    }),
    CalculateFunction::from_body("lcm", &["*integers"], 0, |it, budget| {
        fold(
            it,
            budget,
            BigInt::from(1_u8),
            |a, b| if b.is_zero() { BigInt::ZERO } else { a.lcm(b) },
        )
    }),
    CalculateFunction::from_body("prod", &["iterable", "start"], 1, product),
    CalculateFunction::from_body("fsum", &["iterable"], 1, |it, _| {
        let items = it.value("iterable")?.items()?;
        let numbers = items.iter().map(PythonValue::float).collect::<Result<Vec<_>>>()?;
        floats::check_result(floats::exact_sum(&numbers), &numbers).map(PythonValue::Float)
    }),
    CalculateFunction::from_body("isclose", &["a", "b", "rel_tol", "abs_tol"], 2, |it, _| {
        close(it)
    }),
    CalculateFunction::from_body("isnan", &["x"], 1, |it, _| {
        Ok(PythonValue::Bool(it.float("x")?.is_nan()))
    }),
    CalculateFunction::from_body("isinf", &["x"], 1, |it, _| {
        Ok(PythonValue::Bool(it.float("x")?.is_infinite()))
    }),
    CalculateFunction::from_body("isfinite", &["x"], 1, |it, _| {
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
    let base = floats::check_result(base.ln(), &[base])?;
    if base == 0.0 {
        return Err(operators::DIVISION_BY_ZERO.to_owned());
    }
    Ok(PythonValue::Float(value / base))
}

/// Logarithm, also of integers that are too large for a float. `unit` is ln of its base.
fn large(it: &CallArguments, of: fn(f64) -> f64, unit: f64) -> Result<PythonValue> {
    let exact = it.value("x")?.as_integer().filter(|number| number.bits() > 1_000);
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
    floats::check_result(libm::tgamma(number), &[number]).map(PythonValue::Float)
}

fn to_whole(it: &CallArguments, of: fn(f64) -> f64) -> Result<PythonValue> {
    if let Some(number) = it.value("x")?.as_integer() {
        return Ok(PythonValue::Int(number));
    }
    big_integer::truncate_float(of(it.float("x")?)).map(PythonValue::Int)
}

fn hypot(it: &CallArguments) -> Result<PythonValue> {
    let numbers = it.rest.iter().map(PythonValue::float).collect::<Result<Vec<_>>>()?;
    let length = numbers.iter().fold(0.0_f64, |length, number| length.hypot(*number));
    floats::check_result(length, &numbers).map(PythonValue::Float)
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
            .as_integer()
            .ok_or_else(|| format!("expected whole numbers, found {}", value.kind()))?;
        // The algorithm has one step per bit.
        let bits = total.bits().max(number.bits());
        budget.charge_units((bits / 64 + 1).saturating_mul(bits + 1))?;
        total = big_integer::check_digits(of(&total, &number))?.abs();
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
