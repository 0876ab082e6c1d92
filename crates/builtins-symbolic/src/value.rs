//! Numeric evaluation of the syntax tree in complex numbers, independent of the CAS.

use symplex::prelude::Complex64;

use crate::read::Node;

/// What a name stands for.
pub(crate) type Values<'a> = &'a dyn Fn(&str) -> Option<Complex64>;

/// A value, and the largest number that it was added up from: rounding is a part of that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sized {
    pub(crate) value: Complex64,
    pub(crate) size: f64,
}

impl Sized {
    fn new(value: Complex64, size: f64) -> Self {
        // A part that is minus nothing would choose the other side of a cut.
        let value = Complex64::new(value.re + 0.0, value.im + 0.0);
        Self { value, size: size.max(value.norm()) }
    }
}

/// `None` where a name has no value.
pub(crate) fn of(node: &Node, values: Values<'_>) -> Option<Sized> {
    let exact = |value: Complex64| Sized::new(value, 0.0);
    Some(match node {
        Node::Number(_, value) => exact(Complex64::new(*value, 0.0)),
        Node::Constant(name) => exact(match *name {
            "pi" => Complex64::new(std::f64::consts::PI, 0.0),
            "E" => Complex64::new(std::f64::consts::E, 0.0),
            _ => Complex64::new(0.0, 1.0),
        }),
        Node::Name(name) => exact(values(name)?),
        Node::Negative(inner) => {
            let inner = of(inner, values)?;
            Sized::new(-inner.value, inner.size)
        }
        Node::Binary(sign, left, right) => binary(*sign, of(left, values)?, of(right, values)?),
        Node::Call(name, inner) => {
            let inner = of(inner, values)?;
            let value = call(name, inner.value);
            // Rounding inside is that much outside, where the function is not steep.
            Sized::new(value, value.norm() * (inner.size / inner.value.norm().max(1e-300)).min(1e6))
        }
    })
}

fn binary(sign: char, left: Sized, right: Sized) -> Sized {
    let (a, b) = (left.value, right.value);
    match sign {
        '+' => Sized::new(a + b, left.size.max(right.size)),
        '-' => Sized::new(a - b, left.size.max(right.size)),
        '*' => Sized::new(a * b, (left.size * b.norm()).max(right.size * a.norm())),
        '/' => {
            let value = a / b;
            let size = (left.size / b.norm()).max(value.norm() * right.size / b.norm());
            Sized::new(value, size)
        }
        _ => {
            let value = power(a, b);
            let steep = b.norm() * left.size / a.norm().max(1e-300);
            Sized::new(value, value.norm() * steep.max(right.size).clamp(1.0, 1e6))
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "whole and small")]
#[expect(clippy::float_cmp, reason = "whole numbers are exact")]
fn power(a: Complex64, b: Complex64) -> Complex64 {
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

fn call(name: &str, x: Complex64) -> Complex64 {
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
        "cbrt" => power(x, Complex64::new(1.0 / 3.0, 0.0)),
        "Abs" => Complex64::new(x.norm(), 0.0),
        "sign" if x.norm() == 0.0 => x,
        "sign" => x / x.norm(),
        _ => Complex64::new(f64::NAN, 0.0),
    }
}
