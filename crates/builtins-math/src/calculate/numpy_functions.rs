//! NumPy functions that apply to each element, and the table of all that are no reductions.

use num_integer::Integer as _;
use ruff_python_ast::Operator;

use super::arguments::CallArguments;
use super::array_creation::{arange, filled, linspace};
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
    CalculateFunction::from_elementwise("sqrt", f64::sqrt),
    CalculateFunction::from_elementwise("cbrt", f64::cbrt),
    CalculateFunction::from_elementwise("exp", f64::exp),
    CalculateFunction::from_elementwise("exp2", f64::exp2),
    CalculateFunction::from_elementwise("expm1", f64::exp_m1),
    CalculateFunction::from_elementwise("log", f64::ln),
    CalculateFunction::from_elementwise("log2", f64::log2),
    CalculateFunction::from_elementwise("log10", f64::log10),
    CalculateFunction::from_elementwise("log1p", f64::ln_1p),
    CalculateFunction::from_elementwise("sin", f64::sin),
    CalculateFunction::from_elementwise("cos", f64::cos),
    CalculateFunction::from_elementwise("tan", f64::tan),
    CalculateFunction::from_elementwise("arcsin", f64::asin),
    CalculateFunction::from_elementwise("arccos", f64::acos),
    CalculateFunction::from_elementwise("arctan", f64::atan),
    CalculateFunction::from_elementwise("asin", f64::asin),
    CalculateFunction::from_elementwise("acos", f64::acos),
    CalculateFunction::from_elementwise("atan", f64::atan),
    CalculateFunction::from_elementwise("sinh", f64::sinh),
    CalculateFunction::from_elementwise("cosh", f64::cosh),
    CalculateFunction::from_elementwise("tanh", f64::tanh),
    CalculateFunction::from_elementwise("arcsinh", libm::asinh),
    CalculateFunction::from_elementwise("arccosh", libm::acosh),
    CalculateFunction::from_elementwise("arctanh", libm::atanh),
    CalculateFunction::from_elementwise("asinh", libm::asinh),
    CalculateFunction::from_elementwise("acosh", libm::acosh),
    CalculateFunction::from_elementwise("atanh", libm::atanh),
    CalculateFunction::from_elementwise("deg2rad", f64::to_radians),
    CalculateFunction::from_elementwise("rad2deg", f64::to_degrees),
    CalculateFunction::from_elementwise("radians", f64::to_radians),
    CalculateFunction::from_elementwise("degrees", f64::to_degrees),
    CalculateFunction::from_elementwise("fabs", f64::abs),
    CalculateFunction::from_elementwise("rint", f64::round_ties_even),
    CalculateFunction::from_body("floor", &["x"], 1, |it, _| integral(it, f64::floor)),
    CalculateFunction::from_body("ceil", &["x"], 1, |it, _| integral(it, f64::ceil)),
    CalculateFunction::from_body("trunc", &["x"], 1, |it, _| integral(it, f64::trunc)),
    CalculateFunction::from_body("fix", &["x"], 1, |it, _| integral(it, f64::trunc)),
    CalculateFunction::from_body("abs", &["x"], 1, |it, _| absolute(&it.array("x")?)),
    CalculateFunction::from_body("absolute", &["x"], 1, |it, _| absolute(&it.array("x")?)),
    CalculateFunction::from_body("sign", &["x"], 1, |it, _| sign(&it.array("x")?)),
    CalculateFunction::from_body("round", &["a", "decimals"], 1, |it, _| round(it)),
    CalculateFunction::from_body("around", &["a", "decimals"], 1, |it, _| round(it)),
    CalculateFunction::from_body("square", &["x"], 1, |it, budget| {
        let x = PythonValue::Array(it.array("x")?);
        elementwise::apply_binary(Operator::Mult, &x, &x, budget)
    }),
    CalculateFunction::from_body("negative", &["x"], 1, |it, _| {
        elementwise::unary(ruff_python_ast::UnaryOp::USub, &it.array("x")?)
    }),
    CalculateFunction::from_body("add", &["x1", "x2"], 2, |it, b| operation(it, Operator::Add, b)),
    CalculateFunction::from_body("subtract", &["x1", "x2"], 2, |it, b| {
        operation(it, Operator::Sub, b)
    }),
    CalculateFunction::from_body("multiply", &["x1", "x2"], 2, |it, b| {
        operation(it, Operator::Mult, b)
    }),
    CalculateFunction::from_body("divide", &["x1", "x2"], 2, |it, b| {
        operation(it, Operator::Div, b)
    }),
    CalculateFunction::from_body("true_divide", &["x1", "x2"], 2, |it, b| {
        operation(it, Operator::Div, b)
    }),
    CalculateFunction::from_body("floor_divide", &["x1", "x2"], 2, |it, b| {
        operation(it, Operator::FloorDiv, b)
    }),
    CalculateFunction::from_body("mod", &["x1", "x2"], 2, |it, b| operation(it, Operator::Mod, b)),
    CalculateFunction::from_body("remainder", &["x1", "x2"], 2, |it, b| {
        operation(it, Operator::Mod, b)
    }),
    CalculateFunction::from_body("power", &["x1", "x2"], 2, |it, b| {
        operation(it, Operator::Pow, b)
    }),
    CalculateFunction::from_body("fmod", &["x1", "x2"], 2, |it, _| fmod(it)),
    CalculateFunction::from_body("bitwise_xor", &["x1", "x2"], 2, |it, _| {
        whole_pair(it, |a, b| Ok(a ^ b))
    }),
    CalculateFunction::from_body("gcd", &["x1", "x2"], 2, |it, _| {
        whole_pair(it, |a, b| {
            if a == i64::MIN || b == i64::MIN { Err(overflow_error()) } else { Ok(a.gcd(&b)) }
        })
    }),
    CalculateFunction::from_body("lcm", &["x1", "x2"], 2, |it, _| whole_pair(it, least_multiple)),
    CalculateFunction::from_body("hypot", &["x1", "x2"], 2, |it, _| float_pair(it, f64::hypot)),
    CalculateFunction::from_body("arctan2", &["x1", "x2"], 2, |it, _| float_pair(it, f64::atan2)),
    CalculateFunction::from_body("atan2", &["x1", "x2"], 2, |it, _| float_pair(it, f64::atan2)),
    CalculateFunction::from_body("copysign", &["x1", "x2"], 2, |it, _| {
        float_pair(it, f64::copysign)
    }),
    CalculateFunction::from_body("maximum", &["x1", "x2"], 2, |it, _| picked(it, true)),
    CalculateFunction::from_body("minimum", &["x1", "x2"], 2, |it, _| picked(it, false)),
    CalculateFunction::from_body("clip", &["a", "a_min", "a_max"], 1, |it, _| clip(it)),
    CalculateFunction::from_body("where", &["condition", "x", "y"], 3, choose),
    CalculateFunction::from_body("isclose", &["a", "b", "rtol", "atol"], 2, |it, _| close(it)),
    CalculateFunction::from_body("isnan", &["x"], 1, |it, _| test(it, f64::is_nan)),
    CalculateFunction::from_body("isinf", &["x"], 1, |it, _| test(it, f64::is_infinite)),
    CalculateFunction::from_body("isfinite", &["x"], 1, |it, _| test(it, f64::is_finite)),
    CalculateFunction::from_body("logical_not", &["x"], 1, |it, _| test(it, |x| x == 0.0)),
    CalculateFunction::from_body("logical_and", &["x1", "x2"], 2, |it, _| {
        truths(it, |a, b| a && b)
    }),
    CalculateFunction::from_body("logical_or", &["x1", "x2"], 2, |it, _| truths(it, |a, b| a || b)),
    CalculateFunction::from_body("logical_xor", &["x1", "x2"], 2, |it, _| {
        truths(it, |a, b| a != b)
    }),
    CalculateFunction::from_body("array", &["object"], 1, |it, _| {
        it.array("object").map(PythonValue::Array)
    }),
    CalculateFunction::from_body("asarray", &["a"], 1, |it, _| {
        it.array("a").map(PythonValue::Array)
    }),
    CalculateFunction::from_body("float64", &["x"], 1, |it, _| {
        it.array("x").map(|it| {
            PythonValue::Array(NumpyArray {
                scalar: it.scalar,
                data: ArrayData::Float(it.floats()),
            })
        })
    }),
    CalculateFunction::from_body("int64", &["x"], 1, |it, _| {
        it.array("x").map(|it| {
            PythonValue::Array(NumpyArray { scalar: it.scalar, data: ArrayData::Int(it.ints()) })
        })
    }),
    CalculateFunction::from_body("linspace", &["start", "stop", "num", "endpoint"], 2, linspace),
    CalculateFunction::from_body("arange", &["start", "stop", "step"], 1, arange),
    CalculateFunction::from_body("zeros", &["shape"], 1, |it, budget| filled(it, 0.0, budget)),
    CalculateFunction::from_body("ones", &["shape"], 1, |it, budget| filled(it, 1.0, budget)),
];

fn operation(it: &CallArguments, op: Operator, budget: &mut EvalBudget) -> Result<PythonValue> {
    elementwise::apply_binary(op, it.value("x1")?, it.value("x2")?, budget)
}

fn arrays(it: &CallArguments) -> Result<(NumpyArray, NumpyArray)> {
    operand_arrays(it.value("x1")?, it.value("x2")?)
}

fn float_pair(it: &CallArguments, of: fn(f64, f64) -> f64) -> Result<PythonValue> {
    let (left, right) = arrays(it)?;
    elementwise::apply_as_floats(&left, &right, |a, b| floats::check_result(of(a, b), &[a, b]))
}

fn whole_pair(it: &CallArguments, of: impl Fn(i64, i64) -> Result<i64>) -> Result<PythonValue> {
    let (left, right) = arrays(it)?;
    if left.is_float() || right.is_float() {
        return Err("expected whole numbers, found floats".to_owned());
    }
    elementwise::apply_as_integers(&left, &right, of)
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
    elementwise::apply_as_booleans(&left, &right, of)
}

fn fmod(it: &CallArguments) -> Result<PythonValue> {
    let (left, right) = arrays(it)?;
    if left.is_float() || right.is_float() {
        return elementwise::apply_as_floats(&left, &right, |a, b| {
            floats::check_result(a % b, &[a, b])
        });
    }
    elementwise::apply_as_integers(&left, &right, |a, b| {
        a.checked_rem(b).ok_or_else(|| super::operators::DIVISION_BY_ZERO.to_owned())
    })
}

/// Returns the larger or smaller of each pair; NaN if one of them is NaN.
fn picked(it: &CallArguments, larger: bool) -> Result<PythonValue> {
    let (left, right) = arrays(it)?;
    if left.is_float() || right.is_float() {
        return elementwise::apply_as_floats(&left, &right, |a, b| {
            let second = if larger { b > a } else { b < a };
            Ok(if a.is_nan() || !(second || b.is_nan()) { a } else { b })
        });
    }
    let both = matches!((&left.data, &right.data), (ArrayData::Bool(_), ArrayData::Bool(_)));
    if both {
        return elementwise::apply_as_booleans(
            &left,
            &right,
            |a, b| if larger { a || b } else { a && b },
        );
    }
    elementwise::apply_as_integers(&left, &right, |a, b| {
        Ok(if larger { a.max(b) } else { a.min(b) })
    })
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
    budget.charge_array(length)?;
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
            let one = |item: &f64| floats::check_result(real(*item), &[*item]);
            ArrayData::Float(items.iter().map(one).collect::<Result<_>>()?)
        }
        ArrayData::Int(items) if places < 0 => {
            let one = |item: &i64| {
                let exact = super::rounding::round_integer(&(*item).into(), places.unsigned_abs());
                super::arrays::to_i64(&exact)
            };
            ArrayData::Int(items.iter().map(one).collect::<Result<_>>()?)
        }
        ArrayData::Int(items) => ArrayData::Int(items.clone()),
        ArrayData::Bool(_) => return Err("`round` does not take truth values".to_owned()),
    };
    Ok(PythonValue::Array(NumpyArray { scalar: array.scalar, data }))
}
