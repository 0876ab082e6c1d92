//! Constants and functions of expressions, under their mathjs and NumPy names.

use super::number::Number::{self, Real, Whole};

/// Returns the value of a constant by its name.
pub(super) fn constant(name: &str) -> Option<Number> {
    match name {
        "pi" => Some(Real(std::f64::consts::PI)),
        "e" => Some(Real(std::f64::consts::E)),
        "tau" => Some(Real(std::f64::consts::TAU)),
        _ => None,
    }
}

/// Reason why a function has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The number of decimals is not an integer from 0 to 15.
    Places,
    /// The function is not defined for its arguments; with a message.
    Domain(&'static str),
}

/// A function of the expression language.
#[derive(Debug, Clone, Copy)]
pub(super) enum Function {
    /// A floating-point function of one argument.
    One(fn(f64) -> f64),
    /// A floating-point function of two arguments.
    Two(fn(f64, f64) -> f64),
    Abs,
    /// A rounding function; integers stay unchanged.
    Rounding(fn(f64) -> f64),
    Round,
    Log,
    Pow,
    Factorial,
    Where,
    Fold(Fold),
}

/// A function of any number of arguments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fold {
    Min,
    Max,
    Sum,
    Product,
    Mean,
    /// Standard deviation of the population.
    Deviation,
}

use Function::{Abs, Factorial, Log, One, Pow, Round, Rounding, Two, Where};

/// All known names, for suggestions.
pub(super) const NAMES: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "degrees",
    "e",
    "exp",
    "expm1",
    "factorial",
    "floor",
    "hypot",
    "ln",
    "log",
    "log10",
    "log1p",
    "log2",
    "max",
    "mean",
    "min",
    "pi",
    "pow",
    "prod",
    "radians",
    "round",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "std",
    "sum",
    "tan",
    "tanh",
    "tau",
    "trunc",
    "where",
];

impl Function {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "abs" => Abs,
            "floor" => Rounding(f64::floor),
            "ceil" => Rounding(f64::ceil),
            "trunc" => Rounding(f64::trunc),
            "round" => Round,
            "log" => Log,
            "pow" | "power" => Pow,
            "factorial" => Factorial,
            "where" => Where,
            "atan2" | "arctan2" => Two(f64::atan2),
            "hypot" => Two(f64::hypot),
            "min" => Self::Fold(Fold::Min),
            "max" => Self::Fold(Fold::Max),
            "sum" => Self::Fold(Fold::Sum),
            "prod" => Self::Fold(Fold::Product),
            "mean" => Self::Fold(Fold::Mean),
            "std" => Self::Fold(Fold::Deviation),
            _ => One(of_one(name)?),
        })
    }

    /// Checks the number of arguments; the error says how many are expected.
    pub(super) fn takes(self, count: usize) -> Result<(), &'static str> {
        let (good, words) = match self {
            One(_) | Abs | Rounding(_) | Factorial => (count == 1, "one argument"),
            Two(_) | Pow => (count == 2, "two arguments"),
            Round | Log => (count == 1 || count == 2, "one or two arguments"),
            Where => (count == 3, "a condition and two values"),
            Self::Fold(_) => (count > 0, "at least one argument"),
        };
        if good { Ok(()) } else { Err(words) }
    }

    pub(super) fn exact(self, args: &[Number]) -> Result<Number, Fault> {
        match (self, args) {
            (Abs, [x]) => Ok(x.abs()),
            (Rounding(_) | Round, [x @ Whole(_)]) => Ok(*x),
            (Round, _) => round(args),
            (Log, [x, base]) => Ok(Real(logarithm(x.real(), base.real()))),
            (Pow, [base, exponent]) => Ok(base.power(*exponent)),
            (Factorial, [x]) => factorial(*x),
            (Where, [condition, yes, no]) => Ok(if condition.is_zero() { *no } else { *yes }),
            (Self::Fold(fold), _) => Ok(fold.exact(args)),
            _ => {
                let args: Vec<f64> = args.iter().map(|x| x.real()).collect();
                Ok(Real(self.real(&args)))
            }
        }
    }

    pub(super) fn real(self, args: &[f64]) -> f64 {
        match (self, args) {
            (One(function) | Rounding(function), [x]) => function(*x),
            (Two(function), [x, y]) => function(*x, *y),
            (Abs, [x]) => x.abs(),
            (Log, [x]) => x.ln(),
            (Log, [x, base]) => logarithm(*x, *base),
            (Pow, [base, exponent]) => base.powf(*exponent),
            (Where, [condition, yes, no]) => {
                if *condition == 0.0 {
                    *no
                } else {
                    *yes
                }
            }
            (Round | Factorial, _) => {
                let args: Vec<Number> = args.iter().map(|x| Real(*x).settled()).collect();
                self.exact(&args).map_or(f64::NAN, Number::real)
            }
            (Self::Fold(fold), _) => fold.real(args),
            _ => f64::NAN,
        }
    }
}

impl Fold {
    fn exact(self, args: &[Number]) -> Number {
        let all = args.iter().copied();
        let found = match self {
            Self::Min => all.min_by(|a, b| a.compare(*b)),
            Self::Max => all.max_by(|a, b| a.compare(*b)),
            Self::Sum => all.reduce(Number::add),
            Self::Product => all.reduce(Number::multiply),
            Self::Mean => {
                let count = Whole(i128::try_from(args.len()).unwrap_or(1));
                all.reduce(Number::add).and_then(|sum| sum.divide(count))
            }
            Self::Deviation => {
                let reals: Vec<f64> = all.map(Number::real).collect();
                Some(Real(self.real(&reals)))
            }
        };
        found.unwrap_or(Real(f64::NAN))
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of arguments is small")]
    fn real(self, args: &[f64]) -> f64 {
        let all = args.iter().copied();
        let count = args.len() as f64;
        match self {
            Self::Min => all.reduce(f64::min).unwrap_or(f64::NAN),
            Self::Max => all.reduce(f64::max).unwrap_or(f64::NAN),
            Self::Sum => all.sum(),
            Self::Product => all.product(),
            Self::Mean => all.sum::<f64>() / count,
            Self::Deviation => {
                let mean = args.iter().sum::<f64>() / count;
                (all.map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt()
            }
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
        "asin" | "arcsin" => f64::asin,
        "acos" | "arccos" => f64::acos,
        "atan" | "arctan" => f64::atan,
        "sinh" => f64::sinh,
        "cosh" => f64::cosh,
        "tanh" => f64::tanh,
        "asinh" | "arcsinh" => f64::asinh,
        "acosh" | "arccosh" => f64::acosh,
        "atanh" | "arctanh" => f64::atanh,
        "ln" => f64::ln,
        "log2" => f64::log2,
        "log10" => f64::log10,
        "log1p" => f64::ln_1p,
        "exp" => f64::exp,
        "expm1" => f64::exp_m1,
        "degrees" => f64::to_degrees,
        "radians" => f64::to_radians,
        "sign" => |x| if x == 0.0 { 0.0 } else { x.signum() },
        _ => return None,
    })
}

/// Logarithm to a base. Bases 2 and 10 have functions that are more exact than a quotient.
#[expect(clippy::float_cmp, reason = "just these two")]
fn logarithm(x: f64, base: f64) -> f64 {
    if base == 2.0 {
        x.log2()
    } else if base == 10.0 {
        x.log10()
    } else {
        x.ln() / base.ln()
    }
}

fn factorial(x: Number) -> Result<Number, Fault> {
    let wanted = Fault::Domain("`factorial` takes a whole number from 0 to 170");
    match x.settled() {
        Whole(whole @ 0..=170) => Ok((2..=whole).map(Whole).fold(Whole(1), Number::multiply)),
        _ => Err(wanted),
    }
}

/// Rounds half to even, to integers or to decimals, as Python does.
fn round(args: &[Number]) -> Result<Number, Fault> {
    let (x, places) = match args {
        [x] => (*x, 0),
        [x, Whole(places)] => (*x, i32::try_from(*places).map_err(|_| Fault::Places)?),
        _ => return Err(Fault::Places),
    };
    match (x, places) {
        (_, ..0 | 16..) => Err(Fault::Places),
        (Whole(_), _) => Ok(x),
        (Real(x), 0) => Ok(Real(x.round_ties_even())),
        // Formatting as decimal text is exact; a product with a power of ten would round twice.
        (Real(x), places) => {
            let places = usize::try_from(places).map_err(|_| Fault::Places)?;
            format!("{x:.places$}").parse().map(Real).map_err(|_| Fault::Places)
        }
    }
}
