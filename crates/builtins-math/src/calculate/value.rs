//! Values of expressions.

use num_bigint::BigInt;
use num_traits::{ToPrimitive as _, Zero as _};
use tool::Json;

use super::arrays::{Array, Data};
use super::whole;

/// A value, with Python's types or numpy's.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// `None`.
    None,
    /// `True`, `False`.
    Bool(bool),
    /// A whole number.
    Int(BigInt),
    /// A float.
    Float(f64),
    /// Only what `float("inf")` and `int("7")` read.
    Text(String),
    /// A list, tuple or range.
    List(Vec<Self>),
    /// A vector of numpy, or one of its numbers.
    Array(Array),
}

/// Bits of a whole number that every reader of JSON can take as a number, if rounded: below the largest float.
const NUMBER_BITS: u64 = 1_023;

impl Value {
    /// What it is, in an error.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a truth value",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a float",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Array(array) if array.scalar => "a number of numpy",
            Self::Array(_) => "an array",
        }
    }

    /// Whether it counts as true.
    pub(super) fn truth(&self) -> Result<bool, String> {
        Ok(match self {
            Self::None => false,
            Self::Bool(truth) => *truth,
            Self::Int(whole) => !whole.is_zero(),
            Self::Float(float) => *float != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(items) => !items.is_empty(),
            Self::Array(array) => match array.floats().as_slice() {
                [only] => *only != 0.0,
                _ => {
                    return Err("an array of several elements is neither true nor false; \
                                use np.all(…) or np.any(…)"
                        .to_owned());
                }
            },
        })
    }

    /// As a whole number, where it is one; truth values are 0 and 1.
    pub(super) fn whole(&self) -> Option<BigInt> {
        match self {
            Self::Bool(truth) => Some(BigInt::from(u8::from(*truth))),
            Self::Int(whole) => Some(whole.clone()),
            Self::Array(array) if array.scalar => match &array.data {
                Data::Bool(items) => items.first().map(|item| BigInt::from(u8::from(*item))),
                Data::Int(items) => items.first().map(|item| BigInt::from(*item)),
                Data::Float(_) => None,
            },
            _ => None,
        }
    }

    /// As a float, where it is a number.
    pub(super) fn float(&self) -> Result<f64, String> {
        match self {
            Self::Float(float) => Ok(*float),
            Self::Array(array) if array.scalar => {
                Ok(array.floats().first().copied().unwrap_or(f64::NAN))
            }
            other => match other.whole() {
                Some(whole) => whole::to_float(&whole),
                None => Err(format!("expected a number, found {}", other.kind())),
            },
        }
    }

    /// As a whole number that fits a machine word, such as a count.
    pub(super) fn index(&self, name: &str) -> Result<i64, String> {
        let whole = self.whole().and_then(|whole| whole.to_i64());
        whole.ok_or_else(|| {
            format!("`{name}` must be a whole number of at most 64 bits, found {}", self.kind())
        })
    }

    /// The elements of a list or array.
    pub(super) fn items(&self) -> Result<Vec<Self>, String> {
        match self {
            Self::List(items) => Ok(items.clone()),
            Self::Array(array) if !array.scalar => Ok(array.items()),
            other => Err(format!("expected a list, found {}", other.kind())),
        }
    }

    /// About how many words it has in memory.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::None | Self::Bool(_) | Self::Float(_) => 1,
            Self::Int(whole) => whole.bits() / 64 + 5,
            Self::Text(text) => text.len() as u64,
            Self::List(items) => items.iter().map(|item| 5 + item.size()).sum(),
            Self::Array(array) => 5 + array.len() as u64,
        }
    }

    /// Whether numpy would make a vector of it.
    pub(super) fn is_sequence(&self) -> bool {
        match self {
            Self::List(_) => true,
            Self::Array(array) => !array.scalar,
            _ => false,
        }
    }

    /// The answer: numbers as Python has them. What JSON cannot have as a number is text.
    pub(super) fn json(&self) -> Json {
        let mut text = String::new();
        self.write(&mut text);
        Json::written(text)
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::None => out.push_str("null"),
            Self::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Self::Int(whole) if whole.bits() > NUMBER_BITS => {
                out.push_str(Json::of(&whole.to_string()).as_str());
            }
            Self::Int(whole) => out.push_str(&whole.to_string()),
            Self::Float(float) if float.is_finite() => out.push_str(Json::of(float).as_str()),
            Self::Float(float) if float.is_nan() => out.push_str("\"nan\""),
            Self::Float(float) => out.push_str(if *float > 0.0 { "\"inf\"" } else { "\"-inf\"" }),
            Self::Text(text) => out.push_str(Json::of(text).as_str()),
            Self::List(items) => write_list(items, out),
            Self::Array(array) if array.scalar => {
                array.items().iter().for_each(|item| item.plain().write(out));
            }
            Self::Array(array) => {
                write_list(&array.items().iter().map(Self::plain).collect::<Vec<_>>(), out);
            }
        }
    }

    /// A number of numpy as the number of Python that it equals.
    pub(super) fn plain(&self) -> Self {
        match self {
            Self::Array(array) if array.scalar => match &array.data {
                Data::Bool(items) => items.first().map(|item| Self::Bool(*item)),
                Data::Int(items) => items.first().map(|item| Self::Int(BigInt::from(*item))),
                Data::Float(items) => items.first().map(|item| Self::Float(*item)),
            }
            .unwrap_or(Self::None),
            other => other.clone(),
        }
    }
}

fn write_list(items: &[Value], out: &mut String) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        item.write(out);
    }
    out.push(']');
}
