//! The constants and functions of expressions.

use super::number::Number::{self, Real, Whole};

/// What `name` stands for without parentheses.
pub(super) fn constant(name: &str) -> Option<Number> {
    match name {
        "pi" => Some(Real(std::f64::consts::PI)),
        "e" => Some(Real(std::f64::consts::E)),
        "tau" => Some(Real(std::f64::consts::TAU)),
        _ => None,
    }
}

/// Why a function gave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// No function of that name.
    Unknown,
    /// It takes so many arguments, in words.
    Arity(&'static str),
    /// Its places are not a whole number from 0 to 15.
    Places,
}

/// Calls `name`.
pub(super) fn call(name: &str, args: &[Number]) -> Result<Number, Fault> {
    match name {
        "min" | "max" => extreme(name, args),
        "log" => logarithm(args),
        "round" => round(args),
        "pow" => match args {
            [base, exponent] => Ok(base.power(*exponent)),
            _ => Err(Fault::Arity("two arguments")),
        },
        "abs" => one(args).map(Number::abs),
        "floor" | "ceil" if matches!(args, [Whole(_)]) => one(args),
        _ => {
            let function = of_one(name).ok_or(Fault::Unknown)?;
            one(args).map(|x| Real(function(x.real())))
        }
    }
}

fn of_one(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "sqrt" => f64::sqrt,
        "cbrt" => f64::cbrt,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "asin" => f64::asin,
        "acos" => f64::acos,
        "atan" => f64::atan,
        "ln" => f64::ln,
        "log2" => f64::log2,
        "log10" => f64::log10,
        "exp" => f64::exp,
        "floor" => f64::floor,
        "ceil" => f64::ceil,
        _ => return None,
    })
}

fn one(args: &[Number]) -> Result<Number, Fault> {
    match args {
        [x] => Ok(*x),
        _ => Err(Fault::Arity("one argument")),
    }
}

fn extreme(name: &str, args: &[Number]) -> Result<Number, Fault> {
    let args = args.iter().copied();
    let found = if name == "min" {
        args.min_by(|a, b| a.compare(*b))
    } else {
        args.max_by(|a, b| a.compare(*b))
    };
    found.ok_or(Fault::Arity("at least one argument"))
}

/// Natural, or to a base.
fn logarithm(args: &[Number]) -> Result<Number, Fault> {
    match args {
        [x] => Ok(Real(x.real().ln())),
        [x, base] => Ok(Real(match base {
            // More exact than a quotient of logarithms.
            Whole(2) => x.real().log2(),
            Whole(10) => x.real().log10(),
            base => x.real().ln() / base.real().ln(),
        })),
        _ => Err(Fault::Arity("one or two arguments")),
    }
}

/// Half away from zero, to whole numbers or to places after the point.
fn round(args: &[Number]) -> Result<Number, Fault> {
    let (x, places) = match args {
        [x] => (*x, 0),
        [x, Whole(places)] => (*x, i32::try_from(*places).map_err(|_| Fault::Places)?),
        [_, Real(_)] => return Err(Fault::Places),
        _ => return Err(Fault::Arity("one or two arguments")),
    };
    match (x, places) {
        (_, ..0 | 16..) => Err(Fault::Places),
        (Whole(_), _) => Ok(x),
        (Real(x), _) => {
            let scale = 10_f64.powi(places);
            Ok(Real((x * scale).round() / scale))
        }
    }
}
