//! Values of expressions, with their types.

use num_bigint::BigInt;
use num_traits::{ToPrimitive as _, Zero as _};
use tool::Json;

use super::arrays::{ArrayData, NumpyArray};
use super::big_integer;

/// Value with one of Python's types or NumPy's.
#[derive(Debug, Clone)]
pub(super) enum PythonValue {
    /// `None`.
    None,
    /// `True`, `False`.
    Bool(bool),
    /// Integer of any size.
    Int(BigInt),
    /// Floating-point number.
    Float(f64),
    /// Text, only as an argument of `float("inf")` and `int("7")`.
    Text(String),
    /// List, tuple or range.
    List(Vec<Self>),
    /// NumPy vector or scalar.
    Array(NumpyArray),
}

/// Bits of an integer that every JSON reader accepts as a number, possibly rounded: below the
/// largest float.
const NUMBER_BITS: u64 = 1_023;

impl PythonValue {
    /// Returns the name of the type, for error messages.
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

    /// Returns the truth value.
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

    /// Returns the integer value, if it is one; booleans are 0 and 1.
    pub(super) fn as_integer(&self) -> Option<BigInt> {
        match self {
            Self::Bool(truth) => Some(BigInt::from(u8::from(*truth))),
            Self::Int(whole) => Some(whole.clone()),
            Self::Array(array) if array.scalar => match &array.data {
                ArrayData::Bool(items) => items.first().map(|item| BigInt::from(u8::from(*item))),
                ArrayData::Int(items) => items.first().map(|item| BigInt::from(*item)),
                ArrayData::Float(_) => None,
            },
            _ => None,
        }
    }

    /// Returns the value as a float, if it is a number.
    pub(super) fn float(&self) -> Result<f64, String> {
        match self {
            Self::Float(float) => Ok(*float),
            Self::Array(array) if array.scalar => {
                Ok(array.floats().first().copied().unwrap_or(f64::NAN))
            }
            other => match other.as_integer() {
                Some(whole) => big_integer::to_float(&whole),
                None => Err(format!("expected a number, found {}", other.kind())),
            },
        }
    }

    /// Returns an integer that fits in 64 bits, such as a count.
    pub(super) fn index(&self, name: &str) -> Result<i64, String> {
        let whole = self.as_integer().and_then(|whole| whole.to_i64());
        whole.ok_or_else(|| {
            format!("`{name}` must be a whole number of at most 64 bits, found {}", self.kind())
        })
    }

    /// Returns the elements of a list or array.
    pub(super) fn items(&self) -> Result<Vec<Self>, String> {
        match self {
            Self::List(items) => Ok(items.clone()),
            Self::Array(array) if !array.scalar => Ok(array.items()),
            other => Err(format!("expected a list, found {}", other.kind())),
        }
    }

    /// Estimates its size in memory, in words.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::None | Self::Bool(_) | Self::Float(_) => 1,
            Self::Int(whole) => whole.bits() / 64 + 5,
            Self::Text(text) => text.len() as u64,
            Self::List(items) => items.iter().map(|item| 5 + item.size()).sum(),
            Self::Array(array) => 5 + array.len() as u64,
        }
    }

    /// Whether NumPy converts it to a vector.
    pub(super) fn is_sequence(&self) -> bool {
        match self {
            Self::List(_) => true,
            Self::Array(array) => !array.scalar,
            _ => false,
        }
    }

    /// Encodes the answer: numbers as Python prints them, and as text if JSON has no such number.
    pub(super) fn json(&self) -> Json {
        let mut text = String::new();
        self.write(&mut text);
        Json::from_trusted(text)
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::None => out.push_str("null"),
            Self::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Self::Int(whole) if whole.bits() > NUMBER_BITS => {
                out.push_str(Json::encode(&whole.to_string()).as_str());
            }
            Self::Int(whole) => out.push_str(&whole.to_string()),
            Self::Float(float) if float.is_finite() => out.push_str(Json::encode(float).as_str()),
            Self::Float(float) if float.is_nan() => out.push_str("\"nan\""),
            Self::Float(float) => out.push_str(if *float > 0.0 { "\"inf\"" } else { "\"-inf\"" }),
            Self::Text(text) => out.push_str(Json::encode(text).as_str()),
            Self::List(items) => write_list(items, out),
            Self::Array(array) if array.scalar => {
                array.items().iter().for_each(|item| item.to_python_number().write(out));
            }
            Self::Array(array) => {
                write_list(
                    &array.items().iter().map(Self::to_python_number).collect::<Vec<_>>(),
                    out,
                );
            }
        }
    }

    /// Converts a NumPy scalar to the equal Python number.
    pub(super) fn to_python_number(&self) -> Self {
        match self {
            Self::Array(array) if array.scalar => match &array.data {
                ArrayData::Bool(items) => items.first().map(|item| Self::Bool(*item)),
                ArrayData::Int(items) => items.first().map(|item| Self::Int(BigInt::from(*item))),
                ArrayData::Float(items) => items.first().map(|item| Self::Float(*item)),
            }
            .unwrap_or(Self::None),
            other => other.clone(),
        }
    }
}

fn write_list(items: &[PythonValue], out: &mut String) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        item.write(out);
    }
    out.push(']');
}
