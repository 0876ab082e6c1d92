//! NumPy vectors and scalars: booleans, 64-bit integers or floats.

use num_bigint::BigInt;
use num_traits::ToPrimitive as _;

use super::big_integer;
use super::value::PythonValue;

/// Vector, or scalar with a NumPy type.
#[derive(Debug, Clone)]
pub(super) struct NumpyArray {
    /// Whether it is a scalar, which has no length.
    pub(super) scalar: bool,
    pub(super) data: ArrayData,
}

/// Elements of an array.
#[derive(Debug, Clone)]
pub(super) enum ArrayData {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Float(Vec<f64>),
}

/// Error when a 64-bit integer overflows, such as in `whole + array`.
const TOO_LARGE: &str =
    "the result exceeds numpy's 64-bit integers; use Python's functions, such as sum or math.prod";

pub(super) fn overflow_error() -> String {
    TOO_LARGE.to_owned()
}

impl NumpyArray {
    pub(super) fn from_data(data: ArrayData) -> Self {
        Self { scalar: false, data }
    }

    pub(super) fn scalar(data: ArrayData) -> Self {
        Self { scalar: true, data }
    }

    /// Creates a float scalar.
    pub(super) fn float(number: f64) -> PythonValue {
        PythonValue::Array(Self::scalar(ArrayData::Float(vec![number])))
    }

    /// Creates an integer scalar.
    pub(super) fn int(number: i64) -> PythonValue {
        PythonValue::Array(Self::scalar(ArrayData::Int(vec![number])))
    }

    /// Creates a boolean scalar.
    pub(super) fn bool(truth: bool) -> PythonValue {
        PythonValue::Array(Self::scalar(ArrayData::Bool(vec![truth])))
    }

    /// Converts numbers and lists of numbers, as `np.asarray(value)` does.
    pub(super) fn from_value(value: &PythonValue) -> Result<Self, String> {
        match value {
            PythonValue::Array(array) => Ok(array.clone()),
            PythonValue::Bool(truth) => Ok(Self::scalar(ArrayData::Bool(vec![*truth]))),
            PythonValue::Int(number) => Ok(Self::scalar(ArrayData::Int(vec![to_i64(number)?]))),
            PythonValue::Float(number) => Ok(Self::scalar(ArrayData::Float(vec![*number]))),
            PythonValue::List(items) => Self::from_items(items),
            other => Err(format!("expected a number or a list of numbers, found {}", other.kind())),
        }
    }

    fn from_items(items: &[PythonValue]) -> Result<Self, String> {
        if let Some(nested) = items.iter().find(|item| item.is_sequence()) {
            return Err(format!(
                "arrays have one dimension here, found {} in a list; for matrices use matrix_op",
                nested.kind()
            ));
        }
        let parts = items.iter().map(Self::from_value).collect::<Result<Vec<_>, _>>()?;
        let float =
            parts.is_empty() || parts.iter().any(|it| matches!(it.data, ArrayData::Float(_)));
        let whole = parts.iter().any(|it| matches!(it.data, ArrayData::Int(_)));
        let data = if float {
            ArrayData::Float(parts.iter().flat_map(Self::floats).collect())
        } else if whole {
            ArrayData::Int(parts.iter().flat_map(Self::ints).collect())
        } else {
            ArrayData::Bool(parts.iter().flat_map(Self::bools).collect())
        };
        Ok(Self::from_data(data))
    }

    pub(super) fn len(&self) -> usize {
        match &self.data {
            ArrayData::Bool(items) => items.len(),
            ArrayData::Int(items) => items.len(),
            ArrayData::Float(items) => items.len(),
        }
    }

    pub(super) fn is_float(&self) -> bool {
        matches!(self.data, ArrayData::Float(_))
    }

    pub(super) fn floats(&self) -> Vec<f64> {
        match &self.data {
            ArrayData::Bool(items) => items.iter().map(|item| f64::from(u8::from(*item))).collect(),
            ArrayData::Int(items) => items.iter().map(|item| *item as f64).collect(),
            ArrayData::Float(items) => items.clone(),
        }
    }

    /// Converts the elements to integers; floats are truncated.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "as `astype(int)`; floats are not asked for"
    )]
    pub(super) fn ints(&self) -> Vec<i64> {
        match &self.data {
            ArrayData::Bool(items) => items.iter().map(|item| i64::from(*item)).collect(),
            ArrayData::Int(items) => items.clone(),
            ArrayData::Float(items) => items.iter().map(|item| *item as i64).collect(),
        }
    }

    pub(super) fn bools(&self) -> Vec<bool> {
        match &self.data {
            ArrayData::Bool(items) => items.clone(),
            ArrayData::Int(items) => items.iter().map(|item| *item != 0).collect(),
            ArrayData::Float(items) => items.iter().map(|item| *item != 0.0).collect(),
        }
    }

    /// Returns each element as a NumPy scalar.
    pub(super) fn items(&self) -> Vec<PythonValue> {
        match &self.data {
            ArrayData::Bool(items) => items.iter().map(|item| Self::bool(*item)).collect(),
            ArrayData::Int(items) => items.iter().map(|item| Self::int(*item)).collect(),
            ArrayData::Float(items) => items.iter().map(|item| Self::float(*item)).collect(),
        }
    }

    /// Returns the elements with these indices, in an array of the same type.
    pub(super) fn take_elements(&self, indices: &[usize]) -> Self {
        fn of<T: Copy>(items: &[T], indices: &[usize]) -> Vec<T> {
            indices.iter().filter_map(|index| items.get(*index).copied()).collect()
        }
        Self::from_data(match &self.data {
            ArrayData::Bool(items) => ArrayData::Bool(of(items, indices)),
            ArrayData::Int(items) => ArrayData::Int(of(items, indices)),
            ArrayData::Float(items) => ArrayData::Float(of(items, indices)),
        })
    }
}

/// Converts an integer to NumPy's 64 bits.
pub(super) fn to_i64(number: &BigInt) -> Result<i64, String> {
    number.to_i64().ok_or_else(overflow_error)
}

/// Converts both operands to arrays. A Python integer beside floats becomes a float of any size.
pub(super) fn operand_arrays(
    left: &PythonValue,
    right: &PythonValue,
) -> Result<(NumpyArray, NumpyArray), String> {
    let is_float = |value: &PythonValue| match value {
        PythonValue::Float(_) => true,
        PythonValue::Array(array) => array.is_float(),
        _ => false,
    };
    let float = is_float(left) || is_float(right);
    let one = |value: &PythonValue| match value {
        PythonValue::Int(number) if float => {
            Ok(NumpyArray::scalar(ArrayData::Float(vec![big_integer::to_float(number)?])))
        }
        other => NumpyArray::from_value(other),
    };
    Ok((one(left)?, one(right)?))
}

/// Returns the length of the broadcast result.
pub(super) fn common_length(left: &NumpyArray, right: &NumpyArray) -> Result<usize, String> {
    match (left.len(), right.len()) {
        (a, b) if a == b => Ok(a),
        (1, b) => Ok(b),
        (a, 1) => Ok(a),
        (a, b) => Err(format!("arrays of {a} and {b} elements cannot be combined")),
    }
}

/// Returns the element at `index`; a vector of one element is broadcast.
pub(super) fn element<T: Copy + Default>(items: &[T], index: usize) -> T {
    let index = if items.len() == 1 { 0 } else { index };
    items.get(index).copied().unwrap_or_default()
}
