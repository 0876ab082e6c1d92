//! Constants and functions of expressions, under their mathjs and NumPy names.

use super::exact_number::ExactNumber::{self, Float, Integer};

/// Returns the value of a constant by its name.
pub(super) fn constant_by_name(name: &str) -> Option<ExactNumber> {
    match name {
        "pi" => Some(Float(std::f64::consts::PI)),
        "e" => Some(Float(std::f64::consts::E)),
        "tau" => Some(Float(std::f64::consts::TAU)),
        _ => None,
    }
}

/// Reason why a function has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FunctionError {
    /// The number of decimals is not an integer from 0 to 15.
    InvalidDecimals,
    /// The function is not defined for its arguments; with a message.
    OutsideDomain(&'static str),
}

/// A function of the expression language.
#[derive(Debug, Clone, Copy)]
pub(super) enum ExpressionFunction {
    /// A floating-point function of one argument.
    Unary(fn(f64) -> f64),
    /// A floating-point function of two arguments.
    Binary(fn(f64, f64) -> f64),
    Abs,
    /// A rounding function; integers stay unchanged.
    Rounding(fn(f64) -> f64),
    Round,
    Log,
    Pow,
    Factorial,
    Where,
    Aggregate(AggregateFunction),
}

/// A function of any number of arguments.
#[derive(Debug, Clone, Copy)]
pub(super) enum AggregateFunction {
    Min,
    Max,
    Sum,
    Product,
    Mean,
    /// Standard deviation of the population.
    StdDev,
}

use ExpressionFunction::{Abs, Binary, Factorial, Log, Pow, Round, Rounding, Unary, Where};

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

impl ExpressionFunction {
    pub(super) fn by_name(name: &str) -> Option<Self> {
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
            "atan2" | "arctan2" => Binary(f64::atan2),
            "hypot" => Binary(f64::hypot),
            "min" => Self::Aggregate(AggregateFunction::Min),
            "max" => Self::Aggregate(AggregateFunction::Max),
            "sum" => Self::Aggregate(AggregateFunction::Sum),
            "prod" => Self::Aggregate(AggregateFunction::Product),
            "mean" => Self::Aggregate(AggregateFunction::Mean),
            "std" => Self::Aggregate(AggregateFunction::StdDev),
            _ => Unary(unary_function(name)?),
        })
    }

    /// Checks the number of arguments; the error says how many are expected.
    pub(super) fn check_arity(self, count: usize) -> Result<(), &'static str> {
        let (good, words) = match self {
            Unary(_) | Abs | Rounding(_) | Factorial => (count == 1, "one argument"),
            Binary(_) | Pow => (count == 2, "two arguments"),
            Round | Log => (count == 1 || count == 2, "one or two arguments"),
            Where => (count == 3, "a condition and two values"),
            Self::Aggregate(_) => (count > 0, "at least one argument"),
        };
        if good { Ok(()) } else { Err(words) }
    }

    pub(super) fn apply_exact(self, args: &[ExactNumber]) -> Result<ExactNumber, FunctionError> {
        match (self, args) {
            (Abs, [x]) => Ok(x.abs()),
            (Rounding(_) | Round, [x @ Integer(_)]) => Ok(*x),
            (Round, _) => round_decimals(args),
            (Log, [x, base]) => Ok(Float(log_to_base(x.to_f64(), base.to_f64()))),
            (Pow, [base, exponent]) => Ok(base.power(*exponent)),
            (Factorial, [x]) => exact_factorial(*x),
            (Where, [condition, yes, no]) => Ok(if condition.is_zero() { *no } else { *yes }),
            (Self::Aggregate(fold), _) => Ok(fold.fold_exact(args)),
            _ => {
                let args: Vec<f64> = args.iter().map(|x| x.to_f64()).collect();
                Ok(Float(self.apply_f64(&args)))
            }
        }
    }

    pub(super) fn apply_f64(self, args: &[f64]) -> f64 {
        match (self, args) {
            (Unary(function) | Rounding(function), [x]) => function(*x),
            (Binary(function), [x, y]) => function(*x, *y),
            (Abs, [x]) => x.abs(),
            (Log, [x]) => x.ln(),
            (Log, [x, base]) => log_to_base(*x, *base),
            (Pow, [base, exponent]) => base.powf(*exponent),
            (Where, [condition, yes, no]) => {
                if *condition == 0.0 {
                    *no
                } else {
                    *yes
                }
            }
            (Round | Factorial, _) => {
                let args: Vec<ExactNumber> =
                    args.iter().map(|x| Float(*x).to_integer_if_exact()).collect();
                self.apply_exact(&args).map_or(f64::NAN, ExactNumber::to_f64)
            }
            (Self::Aggregate(fold), _) => fold.fold_f64(args),
            _ => f64::NAN,
        }
    }
}

impl AggregateFunction {
    fn fold_exact(self, args: &[ExactNumber]) -> ExactNumber {
        let all = args.iter().copied();
        let found = match self {
            Self::Min => all.min_by(|a, b| a.compare(*b)),
            Self::Max => all.max_by(|a, b| a.compare(*b)),
            Self::Sum => all.reduce(ExactNumber::add),
            Self::Product => all.reduce(ExactNumber::multiply),
            Self::Mean => {
                let count = Integer(i128::try_from(args.len()).unwrap_or(1));
                all.reduce(ExactNumber::add).and_then(|sum| sum.divide(count))
            }
            Self::StdDev => {
                let reals: Vec<f64> = all.map(ExactNumber::to_f64).collect();
                Some(Float(self.fold_f64(&reals)))
            }
        };
        found.unwrap_or(Float(f64::NAN))
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of arguments is small")]
    fn fold_f64(self, args: &[f64]) -> f64 {
        let all = args.iter().copied();
        let count = args.len() as f64;
        match self {
            Self::Min => all.reduce(f64::min).unwrap_or(f64::NAN),
            Self::Max => all.reduce(f64::max).unwrap_or(f64::NAN),
            Self::Sum => all.sum(),
            Self::Product => all.product(),
            Self::Mean => all.sum::<f64>() / count,
            Self::StdDev => {
                let mean = args.iter().sum::<f64>() / count;
                (all.map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt()
            }
        }
    }
}

fn unary_function(name: &str) -> Option<fn(f64) -> f64> {
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
fn log_to_base(x: f64, base: f64) -> f64 {
    if base == 2.0 {
        x.log2()
    } else if base == 10.0 {
        x.log10()
    } else {
        x.ln() / base.ln()
    }
}

fn exact_factorial(x: ExactNumber) -> Result<ExactNumber, FunctionError> {
    let wanted = FunctionError::OutsideDomain("`factorial` requires a whole number from 0 to 170");
    match x.to_integer_if_exact() {
        Integer(whole @ 0..=170) => {
            Ok((2..=whole).map(Integer).fold(Integer(1), ExactNumber::multiply))
        }
        _ => Err(wanted),
    }
}

/// Rounds half to even, to integers or to decimals, as Python does.
fn round_decimals(args: &[ExactNumber]) -> Result<ExactNumber, FunctionError> {
    let (x, places) = match args {
        [x] => (*x, 0),
        [x, Integer(places)] => {
            (*x, i32::try_from(*places).map_err(|_| FunctionError::InvalidDecimals)?)
        }
        _ => return Err(FunctionError::InvalidDecimals),
    };
    match (x, places) {
        (_, ..0 | 16..) => Err(FunctionError::InvalidDecimals),
        (Integer(_), _) => Ok(x),
        (Float(x), 0) => Ok(Float(x.round_ties_even())),
        // Formatting as decimal text is exact; a product with a power of ten would round twice.
        (Float(x), places) => {
            let places = usize::try_from(places).map_err(|_| FunctionError::InvalidDecimals)?;
            format!("{x:.places$}").parse().map(Float).map_err(|_| FunctionError::InvalidDecimals)
        }
    }
}
