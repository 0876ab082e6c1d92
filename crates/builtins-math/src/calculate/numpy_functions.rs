//! numpy's functions of each element, and those that make arrays.

use num_integer::Integer as _;
use ruff_python_ast::Operator;

use super::arguments::Arguments;
use super::arrays::{Array, Data, common_length, element, overflow, pair};
use super::budget::Budget;
use super::elementwise;
use super::floats;
use super::functions::Function;
use super::value::Value;

type Result<T> = std::result::Result<T, String>;

/// All of them; those that make one number of many are in `numpy_reductions`.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::each("sqrt", f64::sqrt),
    Function::each("cbrt", f64::cbrt),
    Function::each("exp", f64::exp),
    Function::each("exp2", f64::exp2),
    Function::each("expm1", f64::exp_m1),
    Function::each("log", f64::ln),
    Function::each("log2", f64::log2),
    Function::each("log10", f64::log10),
    Function::each("log1p", f64::ln_1p),
    Function::each("sin", f64::sin),
    Function::each("cos", f64::cos),
    Function::each("tan", f64::tan),
    Function::each("arcsin", f64::asin),
    Function::each("arccos", f64::acos),
    Function::each("arctan", f64::atan),
    Function::each("asin", f64::asin),
    Function::each("acos", f64::acos),
    Function::each("atan", f64::atan),
    Function::each("sinh", f64::sinh),
    Function::each("cosh", f64::cosh),
    Function::each("tanh", f64::tanh),
    Function::each("arcsinh", libm::asinh),
    Function::each("arccosh", libm::acosh),
    Function::each("arctanh", libm::atanh),
    Function::each("asinh", libm::asinh),
    Function::each("acosh", libm::acosh),
    Function::each("atanh", libm::atanh),
    Function::each("deg2rad", f64::to_radians),
    Function::each("rad2deg", f64::to_degrees),
    Function::each("radians", f64::to_radians),
    Function::each("degrees", f64::to_degrees),
    Function::each("fabs", f64::abs),
    Function::each("rint", f64::round_ties_even),
    Function::body("floor", &["x"], 1, |it, _| integral(it, f64::floor)),
    Function::body("ceil", &["x"], 1, |it, _| integral(it, f64::ceil)),
    Function::body("trunc", &["x"], 1, |it, _| integral(it, f64::trunc)),
    Function::body("fix", &["x"], 1, |it, _| integral(it, f64::trunc)),
    Function::body("abs", &["x"], 1, |it, _| absolute(&it.array("x")?)),
    Function::body("absolute", &["x"], 1, |it, _| absolute(&it.array("x")?)),
    Function::body("sign", &["x"], 1, |it, _| sign(&it.array("x")?)),
    Function::body("round", &["a", "decimals"], 1, |it, _| round(it)),
    Function::body("around", &["a", "decimals"], 1, |it, _| round(it)),
    Function::body("square", &["x"], 1, |it, budget| {
        let x = Value::Array(it.array("x")?);
        elementwise::binary(Operator::Mult, &x, &x, budget)
    }),
    Function::body("negative", &["x"], 1, |it, _| {
        elementwise::unary(ruff_python_ast::UnaryOp::USub, &it.array("x")?)
    }),
    Function::body("add", &["x1", "x2"], 2, |it, b| operation(it, Operator::Add, b)),
    Function::body("subtract", &["x1", "x2"], 2, |it, b| operation(it, Operator::Sub, b)),
    Function::body("multiply", &["x1", "x2"], 2, |it, b| operation(it, Operator::Mult, b)),
    Function::body("divide", &["x1", "x2"], 2, |it, b| operation(it, Operator::Div, b)),
    Function::body("true_divide", &["x1", "x2"], 2, |it, b| operation(it, Operator::Div, b)),
    Function::body("floor_divide", &["x1", "x2"], 2, |it, b| operation(it, Operator::FloorDiv, b)),
    Function::body("mod", &["x1", "x2"], 2, |it, b| operation(it, Operator::Mod, b)),
    Function::body("remainder", &["x1", "x2"], 2, |it, b| operation(it, Operator::Mod, b)),
    Function::body("power", &["x1", "x2"], 2, |it, b| operation(it, Operator::Pow, b)),
    Function::body("fmod", &["x1", "x2"], 2, |it, _| fmod(it)),
    Function::body("bitwise_xor", &["x1", "x2"], 2, |it, _| whole_pair(it, |a, b| Ok(a ^ b))),
    Function::body("gcd", &["x1", "x2"], 2, |it, _| {
        whole_pair(
            it,
            |a, b| if a == i64::MIN || b == i64::MIN { Err(overflow()) } else { Ok(a.gcd(&b)) },
        )
    }),
    Function::body("lcm", &["x1", "x2"], 2, |it, _| whole_pair(it, least_multiple)),
    Function::body("hypot", &["x1", "x2"], 2, |it, _| float_pair(it, f64::hypot)),
    Function::body("arctan2", &["x1", "x2"], 2, |it, _| float_pair(it, f64::atan2)),
    Function::body("atan2", &["x1", "x2"], 2, |it, _| float_pair(it, f64::atan2)),
    Function::body("copysign", &["x1", "x2"], 2, |it, _| float_pair(it, f64::copysign)),
    Function::body("maximum", &["x1", "x2"], 2, |it, _| picked(it, true)),
    Function::body("minimum", &["x1", "x2"], 2, |it, _| picked(it, false)),
    Function::body("clip", &["a", "a_min", "a_max"], 1, |it, _| clip(it)),
    Function::body("where", &["condition", "x", "y"], 3, choose),
    Function::body("isclose", &["a", "b", "rtol", "atol"], 2, |it, _| close(it)),
    Function::body("isnan", &["x"], 1, |it, _| test(it, f64::is_nan)),
    Function::body("isinf", &["x"], 1, |it, _| test(it, f64::is_infinite)),
    Function::body("isfinite", &["x"], 1, |it, _| test(it, f64::is_finite)),
    Function::body("logical_not", &["x"], 1, |it, _| test(it, |x| x == 0.0)),
    Function::body("logical_and", &["x1", "x2"], 2, |it, _| truths(it, |a, b| a && b)),
    Function::body("logical_or", &["x1", "x2"], 2, |it, _| truths(it, |a, b| a || b)),
    Function::body("logical_xor", &["x1", "x2"], 2, |it, _| truths(it, |a, b| a != b)),
    Function::body("array", &["object"], 1, |it, _| it.array("object").map(Value::Array)),
    Function::body("asarray", &["a"], 1, |it, _| it.array("a").map(Value::Array)),
    Function::body("float64", &["x"], 1, |it, _| {
        it.array("x")
            .map(|it| Value::Array(Array { scalar: it.scalar, data: Data::Float(it.floats()) }))
    }),
    Function::body("int64", &["x"], 1, |it, _| {
        it.array("x")
            .map(|it| Value::Array(Array { scalar: it.scalar, data: Data::Int(it.ints()) }))
    }),
    Function::body("linspace", &["start", "stop", "num", "endpoint"], 2, linspace),
    Function::body("arange", &["start", "stop", "step"], 1, arange),
    Function::body("zeros", &["shape"], 1, |it, budget| filled(it, 0.0, budget)),
    Function::body("ones", &["shape"], 1, |it, budget| filled(it, 1.0, budget)),
];

fn operation(it: &Arguments, op: Operator, budget: &mut Budget) -> Result<Value> {
    elementwise::binary(op, it.value("x1")?, it.value("x2")?, budget)
}

fn arrays(it: &Arguments) -> Result<(Array, Array)> {
    pair(it.value("x1")?, it.value("x2")?)
}

fn float_pair(it: &Arguments, of: fn(f64, f64) -> f64) -> Result<Value> {
    let (left, right) = arrays(it)?;
    elementwise::reals(&left, &right, |a, b| floats::checked(of(a, b), &[a, b]))
}

fn whole_pair(it: &Arguments, of: impl Fn(i64, i64) -> Result<i64>) -> Result<Value> {
    let (left, right) = arrays(it)?;
    if left.is_float() || right.is_float() {
        return Err("expected whole numbers, found floats".to_owned());
    }
    elementwise::wholes(&left, &right, of)
}

fn least_multiple(a: i64, b: i64) -> Result<i64> {
    if a == 0 || b == 0 {
        return Ok(0);
    }
    if a == i64::MIN || b == i64::MIN {
        return Err(overflow());
    }
    let part = a / a.gcd(&b);
    part.checked_mul(b).and_then(i64::checked_abs).ok_or_else(overflow)
}

fn truths(it: &Arguments, of: impl Fn(bool, bool) -> bool) -> Result<Value> {
    let (left, right) = arrays(it)?;
    elementwise::bools(&left, &right, of)
}

fn fmod(it: &Arguments) -> Result<Value> {
    let (left, right) = arrays(it)?;
    if left.is_float() || right.is_float() {
        return elementwise::reals(&left, &right, |a, b| floats::checked(a % b, &[a, b]));
    }
    elementwise::wholes(&left, &right, |a, b| {
        a.checked_rem(b).ok_or_else(|| super::operators::DIVISION_BY_ZERO.to_owned())
    })
}

/// The larger or smaller of each pair; NaN where one is.
fn picked(it: &Arguments, larger: bool) -> Result<Value> {
    let (left, right) = arrays(it)?;
    if left.is_float() || right.is_float() {
        return elementwise::reals(&left, &right, |a, b| {
            let second = if larger { b > a } else { b < a };
            Ok(if a.is_nan() || !(second || b.is_nan()) { a } else { b })
        });
    }
    let both = matches!((&left.data, &right.data), (Data::Bool(_), Data::Bool(_)));
    if both {
        return elementwise::bools(&left, &right, |a, b| if larger { a || b } else { a && b });
    }
    elementwise::wholes(&left, &right, |a, b| Ok(if larger { a.max(b) } else { a.min(b) }))
}

fn clip(it: &Arguments) -> Result<Value> {
    let mut value = Value::Array(it.array("a")?);
    for (name, larger) in [("a_min", true), ("a_max", false)] {
        if let Some(bound) = it.optional(name) {
            let signature = super::arguments::Signature { parameters: &["x1", "x2"], required: 2 };
            let both = vec![value, bound.clone()];
            value = picked(&Arguments::bind("clip", signature, both, Vec::new())?, larger)?;
        }
    }
    Ok(value)
}

/// Of each place the element of `x` or of `y`.
fn chosen<T: Copy + Default>(test: &[bool], x: &[T], y: &[T], length: usize) -> Vec<T> {
    let one = |at| if element(test, at) { element(x, at) } else { element(y, at) };
    (0..length).map(one).collect()
}

fn choose(it: &Arguments, budget: &mut Budget) -> Result<Value> {
    let condition = it.array("condition")?;
    let (x, y) = pair(it.value("x")?, it.value("y")?)?;
    let length = common_length(&x, &y)?;
    let length = if condition.len() == 1 {
        length
    } else if length == 1 || length == condition.len() {
        condition.len()
    } else {
        common_length(&condition, &x).and_then(|_| common_length(&condition, &y))?
    };
    budget.vector(length)?;
    let scalar = condition.scalar && x.scalar && y.scalar;
    let test = condition.bools();
    let data = match (&x.data, &y.data) {
        (Data::Bool(x), Data::Bool(y)) => Data::Bool(chosen(&test, x, y, length)),
        _ if x.is_float() || y.is_float() => {
            Data::Float(chosen(&test, &x.floats(), &y.floats(), length))
        }
        _ => Data::Int(chosen(&test, &x.ints(), &y.ints(), length)),
    };
    Ok(Value::Array(Array { scalar, data }))
}

fn test(it: &Arguments, holds: impl Fn(f64) -> bool) -> Result<Value> {
    let array = it.array("x")?;
    let data = Data::Bool(array.floats().into_iter().map(holds).collect());
    Ok(Value::Array(Array { scalar: array.scalar, data }))
}

fn close(it: &Arguments) -> Result<Value> {
    let (a, b) = pair(it.value("a")?, it.value("b")?)?;
    let (relative, absolute) = (it.float_or("rtol", 1e-5)?, it.float_or("atol", 1e-8)?);
    let (x, y) = (a.floats(), b.floats());
    let one = |at| {
        let (x, y) = (element(&x, at), element(&y, at));
        let same = x.partial_cmp(&y).is_some_and(std::cmp::Ordering::is_eq);
        same || (y.is_finite() && (x - y).abs() <= absolute + relative * y.abs())
    };
    let data = Data::Bool((0..common_length(&a, &b)?).map(one).collect());
    Ok(Value::Array(Array { scalar: a.scalar && b.scalar, data }))
}

/// Whole numbers stay what they are.
fn integral(it: &Arguments, of: fn(f64) -> f64) -> Result<Value> {
    let array = it.array("x")?;
    let data = match array.data {
        Data::Float(items) => Data::Float(items.into_iter().map(of).collect()),
        other => other,
    };
    Ok(Value::Array(Array { scalar: array.scalar, data }))
}

/// `np.abs`.
pub(super) fn absolute(array: &Array) -> Result<Value> {
    let data = match &array.data {
        Data::Bool(items) => Data::Bool(items.clone()),
        Data::Int(items) => {
            let one = |item: &i64| item.checked_abs().ok_or_else(overflow);
            Data::Int(items.iter().map(one).collect::<Result<_>>()?)
        }
        Data::Float(items) => Data::Float(items.iter().map(|item| item.abs()).collect()),
    };
    Ok(Value::Array(Array { scalar: array.scalar, data }))
}

fn sign(array: &Array) -> Result<Value> {
    let of = |x: f64| if x == 0.0 || x.is_nan() { x.abs() } else { x.signum() };
    let data = match &array.data {
        Data::Bool(_) => return Err("`sign` does not take truth values".to_owned()),
        Data::Int(items) => Data::Int(items.iter().map(|item| item.signum()).collect()),
        Data::Float(items) => Data::Float(items.iter().map(|item| of(*item)).collect()),
    };
    Ok(Value::Array(Array { scalar: array.scalar, data }))
}

fn round(it: &Arguments) -> Result<Value> {
    let places = it.index_or("decimals", 0)?.clamp(-400, 400);
    rounded(&it.array("a")?, i32::try_from(places).unwrap_or(0))
}

/// `np.round`: scaled, to the nearest, a half to the even neighbour, scaled back.
pub(super) fn rounded(array: &Array, places: i32) -> Result<Value> {
    let scale = 10_f64.powi(places.abs());
    let real = |x: f64| {
        if places == 0 || !x.is_finite() {
            x.round_ties_even()
        } else if places > 0 {
            (x * scale).round_ties_even() / scale
        } else {
            (x / scale).round_ties_even() * scale
        }
    };
    let data = match &array.data {
        Data::Float(items) => {
            let one = |item: &f64| floats::checked(real(*item), &[*item]);
            Data::Float(items.iter().map(one).collect::<Result<_>>()?)
        }
        Data::Int(items) if places < 0 => {
            let one = |item: &i64| {
                let exact = super::rounding::whole_number(&(*item).into(), places.unsigned_abs());
                super::arrays::word(&exact)
            };
            Data::Int(items.iter().map(one).collect::<Result<_>>()?)
        }
        Data::Int(items) => Data::Int(items.clone()),
        Data::Bool(_) => return Err("`round` does not take truth values".to_owned()),
    };
    Ok(Value::Array(Array { scalar: array.scalar, data }))
}

fn linspace(it: &Arguments, budget: &mut Budget) -> Result<Value> {
    let (start, stop) = (it.float("start")?, it.float("stop")?);
    let count = usize::try_from(it.index_or("num", 50)?);
    let count = count.map_err(|_| "`num` must be at least 0".to_owned())?;
    budget.vector(count)?;
    let closed = it.optional("endpoint").map_or(Ok(true), Value::truth)?;
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
    Ok(Value::Array(Array::of(Data::Float((0..count).map(one).collect()))))
}

fn arange(it: &Arguments, budget: &mut Budget) -> Result<Value> {
    let one = Value::Int(1_u8.into());
    let zero = Value::Int(0_u8.into());
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
    budget.vector(count)?;
    if let (Some(_), Some(_), Some(_)) = (start.whole(), stop.whole(), step.whole()) {
        let (first, by) = (start.index("start")?, step.index("step")?);
        let each = |at: usize| {
            let at = i64::try_from(at).ok()?;
            at.checked_mul(by)?.checked_add(first)
        };
        let data = (0..count).map(each).collect::<Option<_>>().ok_or_else(overflow)?;
        return Ok(Value::Array(Array::of(Data::Int(data))));
    }
    let delta = (first + by) - first;
    let each = |at: usize| if at == 1 { first + by } else { first + at as f64 * delta };
    Ok(Value::Array(Array::of(Data::Float((0..count).map(each).collect()))))
}

fn filled(it: &Arguments, value: f64, budget: &mut Budget) -> Result<Value> {
    let count = usize::try_from(it.value("shape")?.index("shape")?);
    let count = count.map_err(|_| "`shape` must be at least 0".to_owned())?;
    budget.vector(count)?;
    Ok(Value::Array(Array::of(Data::Float(vec![value; count]))))
}
