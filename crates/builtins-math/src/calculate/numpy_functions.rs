//! NumPy functions that apply to each element, and those that create arrays.

use num_integer::Integer as _;
use ruff_python_ast::Operator;

use super::arguments::CallArguments;
use super::arrays::{
    ArrayData, NumpyArray, common_length, element, operand_arrays, overflow_error,
};
use super::budget::EvalBudget;
use super::elementwise;
use super::floats;
use super::functions::CalculateFunction;
use super::value::PythonValue;

type Result<T> = std::result::Result<T, String>;

/// Elementwise and array-creating functions; reductions are in `numpy_reductions`.
pub(super) const FUNCTIONS: &[CalculateFunction] = &[
    CalculateFunction::each("sqrt", f64::sqrt),
    CalculateFunction::each("cbrt", f64::cbrt),
    CalculateFunction::each("exp", f64::exp),
    CalculateFunction::each("exp2", f64::exp2),
    CalculateFunction::each("expm1", f64::exp_m1),
    CalculateFunction::each("log", f64::ln),
    CalculateFunction::each("log2", f64::log2),
    CalculateFunction::each("log10", f64::log10),
    CalculateFunction::each("log1p", f64::ln_1p),
    CalculateFunction::each("sin", f64::sin),
    CalculateFunction::each("cos", f64::cos),
    CalculateFunction::each("tan", f64::tan),
    CalculateFunction::each("arcsin", f64::asin),
    CalculateFunction::each("arccos", f64::acos),
    CalculateFunction::each("arctan", f64::atan),
    CalculateFunction::each("asin", f64::asin),
    CalculateFunction::each("acos", f64::acos),
    CalculateFunction::each("atan", f64::atan),
    CalculateFunction::each("sinh", f64::sinh),
    CalculateFunction::each("cosh", f64::cosh),
    CalculateFunction::each("tanh", f64::tanh),
    CalculateFunction::each("arcsinh", libm::asinh),
    CalculateFunction::each("arccosh", libm::acosh),
    CalculateFunction::each("arctanh", libm::atanh),
    CalculateFunction::each("asinh", libm::asinh),
    CalculateFunction::each("acosh", libm::acosh),
    CalculateFunction::each("atanh", libm::atanh),
    CalculateFunction::each("deg2rad", f64::to_radians),
    CalculateFunction::each("rad2deg", f64::to_degrees),
    CalculateFunction::each("radians", f64::to_radians),
    CalculateFunction::each("degrees", f64::to_degrees),
    CalculateFunction::each("fabs", f64::abs),
    CalculateFunction::each("rint", f64::round_ties_even),
    CalculateFunction::body("floor", &["x"], 1, |it, _| integral(it, f64::floor)),
    CalculateFunction::body("ceil", &["x"], 1, |it, _| integral(it, f64::ceil)),
    CalculateFunction::body("trunc", &["x"], 1, |it, _| integral(it, f64::trunc)),
    CalculateFunction::body("fix", &["x"], 1, |it, _| integral(it, f64::trunc)),
    CalculateFunction::body("abs", &["x"], 1, |it, _| absolute(&it.array("x")?)),
    CalculateFunction::body("absolute", &["x"], 1, |it, _| absolute(&it.array("x")?)),
    CalculateFunction::body("sign", &["x"], 1, |it, _| sign(&it.array("x")?)),
    CalculateFunction::body("round", &["a", "decimals"], 1, |it, _| round(it)),
    CalculateFunction::body("around", &["a", "decimals"], 1, |it, _| round(it)),
    CalculateFunction::body("square", &["x"], 1, |it, budget| {
        let x = PythonValue::Array(it.array("x")?);
        elementwise::binary(Operator::Mult, &x, &x, budget)
    }),
    CalculateFunction::body("negative", &["x"], 1, |it, _| {
        elementwise::unary(ruff_python_ast::UnaryOp::USub, &it.array("x")?)
    }),
    CalculateFunction::body("add", &["x1", "x2"], 2, |it, b| operation(it, Operator::Add, b)),
    CalculateFunction::body("subtract", &["x1", "x2"], 2, |it, b| operation(it, Operator::Sub, b)),
    CalculateFunction::body("multiply", &["x1", "x2"], 2, |it, b| operation(it, Operator::Mult, b)),
    CalculateFunction::body("divide", &["x1", "x2"], 2, |it, b| operation(it, Operator::Div, b)),
    CalculateFunction::body("true_divide", &["x1", "x2"], 2, |it, b| {
        operation(it, Operator::Div, b)
    }),
    CalculateFunction::body("floor_divide", &["x1", "x2"], 2, |it, b| {
        operation(it, Operator::FloorDiv, b)
    }),
    CalculateFunction::body("mod", &["x1", "x2"], 2, |it, b| operation(it, Operator::Mod, b)),
    CalculateFunction::body("remainder", &["x1", "x2"], 2, |it, b| operation(it, Operator::Mod, b)),
    CalculateFunction::body("power", &["x1", "x2"], 2, |it, b| operation(it, Operator::Pow, b)),
    CalculateFunction::body("fmod", &["x1", "x2"], 2, |it, _| fmod(it)),
    CalculateFunction::body("bitwise_xor", &["x1", "x2"], 2, |it, _| {
        whole_pair(it, |a, b| Ok(a ^ b))
    }),
    CalculateFunction::body("gcd", &["x1", "x2"], 2, |it, _| {
        whole_pair(it, |a, b| {
            if a == i64::MIN || b == i64::MIN { Err(overflow_error()) } else { Ok(a.gcd(&b)) }
        })
    }),
    CalculateFunction::body("lcm", &["x1", "x2"], 2, |it, _| whole_pair(it, least_multiple)),
    CalculateFunction::body("hypot", &["x1", "x2"], 2, |it, _| float_pair(it, f64::hypot)),
    CalculateFunction::body("arctan2", &["x1", "x2"], 2, |it, _| float_pair(it, f64::atan2)),
    CalculateFunction::body("atan2", &["x1", "x2"], 2, |it, _| float_pair(it, f64::atan2)),
    CalculateFunction::body("copysign", &["x1", "x2"], 2, |it, _| float_pair(it, f64::copysign)),
    CalculateFunction::body("maximum", &["x1", "x2"], 2, |it, _| picked(it, true)),
    CalculateFunction::body("minimum", &["x1", "x2"], 2, |it, _| picked(it, false)),
    CalculateFunction::body("clip", &["a", "a_min", "a_max"], 1, |it, _| clip(it)),
    CalculateFunction::body("where", &["condition", "x", "y"], 3, choose),
    CalculateFunction::body("isclose", &["a", "b", "rtol", "atol"], 2, |it, _| close(it)),
    CalculateFunction::body("isnan", &["x"], 1, |it, _| test(it, f64::is_nan)),
    CalculateFunction::body("isinf", &["x"], 1, |it, _| test(it, f64::is_infinite)),
    CalculateFunction::body("isfinite", &["x"], 1, |it, _| test(it, f64::is_finite)),
    CalculateFunction::body("logical_not", &["x"], 1, |it, _| test(it, |x| x == 0.0)),
    CalculateFunction::body("logical_and", &["x1", "x2"], 2, |it, _| truths(it, |a, b| a && b)),
    CalculateFunction::body("logical_or", &["x1", "x2"], 2, |it, _| truths(it, |a, b| a || b)),
    CalculateFunction::body("logical_xor", &["x1", "x2"], 2, |it, _| truths(it, |a, b| a != b)),
    CalculateFunction::body("array", &["object"], 1, |it, _| {
        it.array("object").map(PythonValue::Array)
    }),
    CalculateFunction::body("asarray", &["a"], 1, |it, _| it.array("a").map(PythonValue::Array)),
    CalculateFunction::body("float64", &["x"], 1, |it, _| {
        it.array("x").map(|it| {
            PythonValue::Array(NumpyArray {
                scalar: it.scalar,
                data: ArrayData::Float(it.floats()),
            })
        })
    }),
    CalculateFunction::body("int64", &["x"], 1, |it, _| {
        it.array("x").map(|it| {
            PythonValue::Array(NumpyArray { scalar: it.scalar, data: ArrayData::Int(it.ints()) })
        })
    }),
    CalculateFunction::body("linspace", &["start", "stop", "num", "endpoint"], 2, linspace),
    CalculateFunction::body("arange", &["start", "stop", "step"], 1, arange),
    CalculateFunction::body("zeros", &["shape"], 1, |it, budget| filled(it, 0.0, budget)),
    CalculateFunction::body("ones", &["shape"], 1, |it, budget| filled(it, 1.0, budget)),
];

fn operation(it: &CallArguments, op: Operator, budget: &mut EvalBudget) -> Result<PythonValue> {
    elementwise::binary(op, it.value("x1")?, it.value("x2")?, budget)
}

fn arrays(it: &CallArguments) -> Result<(NumpyArray, NumpyArray)> {
    operand_arrays(it.value("x1")?, it.value("x2")?)
}

fn float_pair(it: &CallArguments, of: fn(f64, f64) -> f64) -> Result<PythonValue> {
    let (left, right) = arrays(it)?;
    elementwise::reals(&left, &right, |a, b| floats::checked(of(a, b), &[a, b]))
}

fn whole_pair(it: &CallArguments, of: impl Fn(i64, i64) -> Result<i64>) -> Result<PythonValue> {
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
        return Err(overflow_error());
    }
    let part = a / a.gcd(&b);
    part.checked_mul(b).and_then(i64::checked_abs).ok_or_else(overflow_error)
}

fn truths(it: &CallArguments, of: impl Fn(bool, bool) -> bool) -> Result<PythonValue> {
    let (left, right) = arrays(it)?;
    elementwise::bools(&left, &right, of)
}

fn fmod(it: &CallArguments) -> Result<PythonValue> {
    let (left, right) = arrays(it)?;
    if left.is_float() || right.is_float() {
        return elementwise::reals(&left, &right, |a, b| floats::checked(a % b, &[a, b]));
    }
    elementwise::wholes(&left, &right, |a, b| {
        a.checked_rem(b).ok_or_else(|| super::operators::DIVISION_BY_ZERO.to_owned())
    })
}

/// Returns the larger or smaller of each pair; NaN if one of them is NaN.
fn picked(it: &CallArguments, larger: bool) -> Result<PythonValue> {
    let (left, right) = arrays(it)?;
    if left.is_float() || right.is_float() {
        return elementwise::reals(&left, &right, |a, b| {
            let second = if larger { b > a } else { b < a };
            Ok(if a.is_nan() || !(second || b.is_nan()) { a } else { b })
        });
    }
    let both = matches!((&left.data, &right.data), (ArrayData::Bool(_), ArrayData::Bool(_)));
    if both {
        return elementwise::bools(&left, &right, |a, b| if larger { a || b } else { a && b });
    }
    elementwise::wholes(&left, &right, |a, b| Ok(if larger { a.max(b) } else { a.min(b) }))
}

fn clip(it: &CallArguments) -> Result<PythonValue> {
    let mut value = PythonValue::Array(it.array("a")?);
    for (name, larger) in [("a_min", true), ("a_max", false)] {
        if let Some(bound) = it.optional(name) {
            let signature =
                super::arguments::FunctionSignature { parameters: &["x1", "x2"], required: 2 };
            let both = vec![value, bound.clone()];
            value = picked(&CallArguments::bind("clip", signature, both, Vec::new())?, larger)?;
        }
    }
    Ok(value)
}

/// Selects the element of `x` or `y` at each index by `test`.
fn chosen<T: Copy + Default>(test: &[bool], x: &[T], y: &[T], length: usize) -> Vec<T> {
    let one = |at| if element(test, at) { element(x, at) } else { element(y, at) };
    (0..length).map(one).collect()
}

fn choose(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
    let condition = it.array("condition")?;
    let (x, y) = operand_arrays(it.value("x")?, it.value("y")?)?;
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
        (ArrayData::Bool(x), ArrayData::Bool(y)) => ArrayData::Bool(chosen(&test, x, y, length)),
        _ if x.is_float() || y.is_float() => {
            ArrayData::Float(chosen(&test, &x.floats(), &y.floats(), length))
        }
        _ => ArrayData::Int(chosen(&test, &x.ints(), &y.ints(), length)),
    };
    Ok(PythonValue::Array(NumpyArray { scalar, data }))
}

fn test(it: &CallArguments, holds: impl Fn(f64) -> bool) -> Result<PythonValue> {
    let array = it.array("x")?;
    let data = ArrayData::Bool(array.floats().into_iter().map(holds).collect());
    Ok(PythonValue::Array(NumpyArray { scalar: array.scalar, data }))
}

fn close(it: &CallArguments) -> Result<PythonValue> {
    let (a, b) = operand_arrays(it.value("a")?, it.value("b")?)?;
    let (relative, absolute) = (it.float_or("rtol", 1e-5)?, it.float_or("atol", 1e-8)?);
    let (x, y) = (a.floats(), b.floats());
    let one = |at| {
        let (x, y) = (element(&x, at), element(&y, at));
        let same = x.partial_cmp(&y).is_some_and(std::cmp::Ordering::is_eq);
        same || (y.is_finite() && (x - y).abs() <= absolute + relative * y.abs())
    };
    let data = ArrayData::Bool((0..common_length(&a, &b)?).map(one).collect());
    Ok(PythonValue::Array(NumpyArray { scalar: a.scalar && b.scalar, data }))
}

/// Applies a rounding function to floats; integers stay unchanged.
fn integral(it: &CallArguments, of: fn(f64) -> f64) -> Result<PythonValue> {
    let array = it.array("x")?;
    let data = match array.data {
        ArrayData::Float(items) => ArrayData::Float(items.into_iter().map(of).collect()),
        other => other,
    };
    Ok(PythonValue::Array(NumpyArray { scalar: array.scalar, data }))
}

/// Computes `np.abs` of an array.
pub(super) fn absolute(array: &NumpyArray) -> Result<PythonValue> {
    let data = match &array.data {
        ArrayData::Bool(items) => ArrayData::Bool(items.clone()),
        ArrayData::Int(items) => {
            let one = |item: &i64| item.checked_abs().ok_or_else(overflow_error);
            ArrayData::Int(items.iter().map(one).collect::<Result<_>>()?)
        }
        ArrayData::Float(items) => ArrayData::Float(items.iter().map(|item| item.abs()).collect()),
    };
    Ok(PythonValue::Array(NumpyArray { scalar: array.scalar, data }))
}

fn sign(array: &NumpyArray) -> Result<PythonValue> {
    let of = |x: f64| if x == 0.0 || x.is_nan() { x.abs() } else { x.signum() };
    let data = match &array.data {
        ArrayData::Bool(_) => return Err("`sign` does not take truth values".to_owned()),
        ArrayData::Int(items) => ArrayData::Int(items.iter().map(|item| item.signum()).collect()),
        ArrayData::Float(items) => ArrayData::Float(items.iter().map(|item| of(*item)).collect()),
    };
    Ok(PythonValue::Array(NumpyArray { scalar: array.scalar, data }))
}

fn round(it: &CallArguments) -> Result<PythonValue> {
    let places = it.index_or("decimals", 0)?.clamp(-400, 400);
    rounded(&it.array("a")?, i32::try_from(places).unwrap_or(0))
}

/// `np.round`: scales, rounds half to even, and scales back.
pub(super) fn rounded(array: &NumpyArray, places: i32) -> Result<PythonValue> {
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
        ArrayData::Float(items) => {
            let one = |item: &f64| floats::checked(real(*item), &[*item]);
            ArrayData::Float(items.iter().map(one).collect::<Result<_>>()?)
        }
        ArrayData::Int(items) if places < 0 => {
            let one = |item: &i64| {
                let exact = super::rounding::whole_number(&(*item).into(), places.unsigned_abs());
                super::arrays::to_i64(&exact)
            };
            ArrayData::Int(items.iter().map(one).collect::<Result<_>>()?)
        }
        ArrayData::Int(items) => ArrayData::Int(items.clone()),
        ArrayData::Bool(_) => return Err("`round` does not take truth values".to_owned()),
    };
    Ok(PythonValue::Array(NumpyArray { scalar: array.scalar, data }))
}

fn linspace(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
    let (start, stop) = (it.float("start")?, it.float("stop")?);
    let count = usize::try_from(it.index_or("num", 50)?);
    let count = count.map_err(|_| "`num` must be at least 0".to_owned())?;
    budget.vector(count)?;
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
    Ok(PythonValue::Array(NumpyArray::of(ArrayData::Float((0..count).map(one).collect()))))
}

fn arange(it: &CallArguments, budget: &mut EvalBudget) -> Result<PythonValue> {
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
    budget.vector(count)?;
    if let (Some(_), Some(_), Some(_)) = (start.whole(), stop.whole(), step.whole()) {
        let (first, by) = (start.index("start")?, step.index("step")?);
        let each = |at: usize| {
            let at = i64::try_from(at).ok()?;
            at.checked_mul(by)?.checked_add(first)
        };
        let data = (0..count).map(each).collect::<Option<_>>().ok_or_else(overflow_error)?;
        return Ok(PythonValue::Array(NumpyArray::of(ArrayData::Int(data))));
    }
    let delta = (first + by) - first;
    let each = |at: usize| if at == 1 { first + by } else { first + at as f64 * delta };
    Ok(PythonValue::Array(NumpyArray::of(ArrayData::Float((0..count).map(each).collect()))))
}

fn filled(it: &CallArguments, value: f64, budget: &mut EvalBudget) -> Result<PythonValue> {
    let count = usize::try_from(it.value("shape")?.index("shape")?);
    let count = count.map_err(|_| "`shape` must be at least 0".to_owned())?;
    budget.vector(count)?;
    Ok(PythonValue::Array(NumpyArray::of(ArrayData::Float(vec![value; count]))))
}
