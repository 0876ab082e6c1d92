//! Vectors and numbers of numpy: truth values, 64-bit whole numbers or floats.

use num_bigint::BigInt;
use num_traits::ToPrimitive as _;

use super::value::Value;
use super::whole;

/// A vector, or one number with a numpy type.
#[derive(Debug, Clone)]
pub(super) struct Array {
    /// A single number, which has no length.
    pub(super) scalar: bool,
    pub(super) data: Data,
}

/// The elements.
#[derive(Debug, Clone)]
pub(super) enum Data {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Float(Vec<f64>),
}

/// What `whole + array` and the like mean where the whole number is too large.
const TOO_LARGE: &str =
    "numpy's whole numbers have 64 bits, which is too few; use Python's, such as sum or math.prod";

pub(super) fn overflow() -> String {
    TOO_LARGE.to_owned()
}

impl Array {
    pub(super) fn of(data: Data) -> Self {
        Self { scalar: false, data }
    }

    pub(super) fn one(data: Data) -> Self {
        Self { scalar: true, data }
    }

    /// One float.
    pub(super) fn float(number: f64) -> Value {
        Value::Array(Self::one(Data::Float(vec![number])))
    }

    /// One whole number.
    pub(super) fn int(number: i64) -> Value {
        Value::Array(Self::one(Data::Int(vec![number])))
    }

    /// One truth value.
    pub(super) fn bool(truth: bool) -> Value {
        Value::Array(Self::one(Data::Bool(vec![truth])))
    }

    /// `np.asarray(value)` for numbers and lists of numbers.
    pub(super) fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Array(array) => Ok(array.clone()),
            Value::Bool(truth) => Ok(Self::one(Data::Bool(vec![*truth]))),
            Value::Int(number) => Ok(Self::one(Data::Int(vec![word(number)?]))),
            Value::Float(number) => Ok(Self::one(Data::Float(vec![*number]))),
            Value::List(items) => Self::from_items(items),
            other => Err(format!("expected a number or a list of numbers, found {}", other.kind())),
        }
    }

    fn from_items(items: &[Value]) -> Result<Self, String> {
        if let Some(nested) = items.iter().find(|item| item.is_sequence()) {
            return Err(format!(
                "arrays have one dimension here, found {} in a list; for matrices use matrix_op",
                nested.kind()
            ));
        }
        let parts = items.iter().map(Self::from_value).collect::<Result<Vec<_>, _>>()?;
        let float = parts.is_empty() || parts.iter().any(|it| matches!(it.data, Data::Float(_)));
        let whole = parts.iter().any(|it| matches!(it.data, Data::Int(_)));
        let data = if float {
            Data::Float(parts.iter().flat_map(Self::floats).collect())
        } else if whole {
            Data::Int(parts.iter().flat_map(Self::ints).collect())
        } else {
            Data::Bool(parts.iter().flat_map(Self::bools).collect())
        };
        Ok(Self::of(data))
    }

    pub(super) fn len(&self) -> usize {
        match &self.data {
            Data::Bool(items) => items.len(),
            Data::Int(items) => items.len(),
            Data::Float(items) => items.len(),
        }
    }

    pub(super) fn is_float(&self) -> bool {
        matches!(self.data, Data::Float(_))
    }

    pub(super) fn floats(&self) -> Vec<f64> {
        match &self.data {
            Data::Bool(items) => items.iter().map(|item| f64::from(u8::from(*item))).collect(),
            Data::Int(items) => items.iter().map(|item| *item as f64).collect(),
            Data::Float(items) => items.clone(),
        }
    }

    /// As whole numbers; floats are truncated.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "as `astype(int)`; floats are not asked for"
    )]
    pub(super) fn ints(&self) -> Vec<i64> {
        match &self.data {
            Data::Bool(items) => items.iter().map(|item| i64::from(*item)).collect(),
            Data::Int(items) => items.clone(),
            Data::Float(items) => items.iter().map(|item| *item as i64).collect(),
        }
    }

    pub(super) fn bools(&self) -> Vec<bool> {
        match &self.data {
            Data::Bool(items) => items.clone(),
            Data::Int(items) => items.iter().map(|item| *item != 0).collect(),
            Data::Float(items) => items.iter().map(|item| *item != 0.0).collect(),
        }
    }

    /// Each element as a number of numpy.
    pub(super) fn items(&self) -> Vec<Value> {
        match &self.data {
            Data::Bool(items) => items.iter().map(|item| Self::bool(*item)).collect(),
            Data::Int(items) => items.iter().map(|item| Self::int(*item)).collect(),
            Data::Float(items) => items.iter().map(|item| Self::float(*item)).collect(),
        }
    }

    /// The same kind of elements: those with these indices.
    pub(super) fn picked(&self, indices: &[usize]) -> Self {
        fn of<T: Copy>(items: &[T], indices: &[usize]) -> Vec<T> {
            indices.iter().filter_map(|index| items.get(*index).copied()).collect()
        }
        Self::of(match &self.data {
            Data::Bool(items) => Data::Bool(of(items, indices)),
            Data::Int(items) => Data::Int(of(items, indices)),
            Data::Float(items) => Data::Float(of(items, indices)),
        })
    }
}

/// As one of numpy's whole numbers.
pub(super) fn word(number: &BigInt) -> Result<i64, String> {
    number.to_i64().ok_or_else(overflow)
}

/// Both operands as arrays. A whole number of Python beside floats becomes a float, whatever its size.
pub(super) fn pair(left: &Value, right: &Value) -> Result<(Array, Array), String> {
    let is_float = |value: &Value| match value {
        Value::Float(_) => true,
        Value::Array(array) => array.is_float(),
        _ => false,
    };
    let float = is_float(left) || is_float(right);
    let one = |value: &Value| match value {
        Value::Int(number) if float => Ok(Array::one(Data::Float(vec![whole::to_float(number)?]))),
        other => Array::from_value(other),
    };
    Ok((one(left)?, one(right)?))
}

/// The length of what comes of both.
pub(super) fn common_length(left: &Array, right: &Array) -> Result<usize, String> {
    match (left.len(), right.len()) {
        (a, b) if a == b => Ok(a),
        (1, b) => Ok(b),
        (a, 1) => Ok(a),
        (a, b) => Err(format!("arrays of {a} and {b} elements do not fit together")),
    }
}

/// The element at `index` of a vector that may have one element for all.
pub(super) fn element<T: Copy + Default>(items: &[T], index: usize) -> T {
    let index = if items.len() == 1 { 0 } else { index };
    items.get(index).copied().unwrap_or_default()
}
