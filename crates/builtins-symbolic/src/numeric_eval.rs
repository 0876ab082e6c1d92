//! Numeric evaluation of the syntax tree in complex numbers, independent of the CAS.

use symplex::prelude::Complex64;

use crate::equation_parser::EquationNode;

/// Lookup of the value of a symbol.
pub(crate) type SymbolValues<'a> = &'a dyn Fn(&str) -> Option<Complex64>;

/// Value with the largest magnitude among its terms, which bounds the rounding error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScaledValue {
    pub(crate) value: Complex64,
    pub(crate) magnitude: f64,
}

impl ScaledValue {
    fn new(value: Complex64, size: f64) -> Self {
        // A negative zero would select the other side of a branch cut.
        let value = Complex64::new(value.re + 0.0, value.im + 0.0);
        Self { value, magnitude: size.max(value.norm()) }
    }
}

/// Evaluates an expression; `None` if a name has no value.
pub(crate) fn evaluate_node(node: &EquationNode, values: SymbolValues<'_>) -> Option<ScaledValue> {
    let exact = |value: Complex64| ScaledValue::new(value, 0.0);
    Some(match node {
        EquationNode::Number(_, value) => exact(Complex64::new(*value, 0.0)),
        EquationNode::Constant(name) => exact(match *name {
            "pi" => Complex64::new(std::f64::consts::PI, 0.0),
            "E" => Complex64::new(std::f64::consts::E, 0.0),
            _ => Complex64::new(0.0, 1.0),
        }),
        EquationNode::Symbol(name) => exact(values(name)?),
        EquationNode::Negate(inner) => {
            let inner = evaluate_node(inner, values)?;
            ScaledValue::new(-inner.value, inner.magnitude)
        }
        EquationNode::Binary(sign, left, right) => {
            apply_operator(*sign, evaluate_node(left, values)?, evaluate_node(right, values)?)
        }
        EquationNode::Call(name, inner) => {
            let inner = evaluate_node(inner, values)?;
            let value = apply_function(name, inner.value);
            // A relative error of the argument is the same for the result, unless the function is
            // steep.
            ScaledValue::new(
                value,
                value.norm() * (inner.magnitude / inner.value.norm().max(1e-300)).min(1e6),
            )
        }
    })
}

fn apply_operator(sign: char, left: ScaledValue, right: ScaledValue) -> ScaledValue {
    let (a, b) = (left.value, right.value);
    match sign {
        '+' => ScaledValue::new(a + b, left.magnitude.max(right.magnitude)),
        '-' => ScaledValue::new(a - b, left.magnitude.max(right.magnitude)),
        '*' => ScaledValue::new(a * b, (left.magnitude * b.norm()).max(right.magnitude * a.norm())),
        '/' => {
            let value = a / b;
            let size = (left.magnitude / b.norm()).max(value.norm() * right.magnitude / b.norm());
            ScaledValue::new(value, size)
        }
        _ => {
            let value = complex_power(a, b);
            let steep = b.norm() * left.magnitude / a.norm().max(1e-300);
            ScaledValue::new(value, value.norm() * steep.max(right.magnitude).clamp(1.0, 1e6))
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "whole and small")]
#[expect(clippy::float_cmp, reason = "whole numbers are exact")]
fn complex_power(a: Complex64, b: Complex64) -> Complex64 {
    if b.im == 0.0 && b.re.fract() == 0.0 && b.re.abs() <= 1000.0 {
        return a.powi(b.re as i32);
    }
    if a.norm() == 0.0 {
        return if b.re > 0.0 { a } else { Complex64::new(f64::NAN, 0.0) };
    }
    if b.im == 0.0 && b.re == 0.5 {
        return a.sqrt();
    }
    (a.ln() * b).exp()
}

fn apply_function(name: &str, x: Complex64) -> Complex64 {
    let one = Complex64::new(1.0, 0.0);
    match name {
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.sin() / x.cos(),
        "cot" => x.cos() / x.sin(),
        "sec" => one / x.cos(),
        "csc" => one / x.sin(),
        "asin" => x.asin(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "tanh" => x.tanh(),
        "asinh" => x.asinh(),
        "acosh" => x.acosh(),
        "atanh" => x.atanh(),
        "exp" => x.exp(),
        "log" => x.ln(),
        "sqrt" => x.sqrt(),
        "cbrt" => complex_power(x, Complex64::new(1.0 / 3.0, 0.0)),
        "Abs" => Complex64::new(x.norm(), 0.0),
        "sign" if x.norm() == 0.0 => x,
        "sign" => x / x.norm(),
        _ => Complex64::new(f64::NAN, 0.0),
    }
}
