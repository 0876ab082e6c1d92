//! Arguments of a call, bound to the parameters of the function.

use super::arrays::NumpyArray;
use super::value::PythonValue;

type Result<T> = std::result::Result<T, String>;

/// Parameters of a function, in Python's terms.
#[derive(Debug, Clone, Copy)]
pub(super) struct FunctionSignature {
    /// Parameters in order; a last one that begins with `*` takes any number of values.
    pub(super) parameters: &'static [&'static str],
    /// Number of parameters without a default.
    pub(super) required: usize,
}

/// Argument values by parameter name.
#[derive(Debug)]
pub(super) struct CallArguments {
    parameters: &'static [&'static str],
    values: Vec<Option<PythonValue>>,
    /// Values of the `*` parameter.
    pub(super) rest: Vec<PythonValue>,
}

impl CallArguments {
    /// Binds each value to its parameter.
    pub(super) fn bind(
        name: &str,
        signature: FunctionSignature,
        positional: Vec<PythonValue>,
        keywords: Vec<(String, PythonValue)>,
    ) -> Result<Self> {
        let FunctionSignature { parameters, required } = signature;
        let variadic = parameters.last().is_some_and(|last| last.starts_with('*'));
        let plain = parameters.len() - usize::from(variadic);
        if (positional.len() > plain && !variadic)
            || (keywords.is_empty() && positional.len() < required)
        {
            let form = parameters.join(", ");
            let found = positional.len();
            let hint = if found > plain && plain == 1 { " as one list or number" } else { "" };
            return Err(format!("`{name}({form})` takes its values{hint}, found {found}"));
        }
        let mut positional = positional.into_iter();
        let mut values: Vec<Option<PythonValue>> = (0..plain).map(|_| positional.next()).collect();
        for (key, value) in keywords {
            let place = parameters.iter().position(|own| *own == key);
            let Some(slot) = place.and_then(|place| values.get_mut(place)) else {
                let known = parameters.join(", ");
                return Err(format!("`{name}` has no parameter `{key}`; it has {known}"));
            };
            if slot.replace(value).is_some() {
                return Err(format!("`{name}` got `{key}` twice"));
            }
        }
        let missing = values.iter().take(required).position(Option::is_none);
        if let Some(missing) = missing.and_then(|at| parameters.get(at)) {
            return Err(format!("`{name}` needs `{missing}`"));
        }
        Ok(Self { parameters, values, rest: positional.collect() })
    }

    fn place(&self, name: &str) -> Option<&PythonValue> {
        let place = self.parameters.iter().position(|own| *own == name)?;
        self.values.get(place)?.as_ref()
    }

    /// Returns the value of a parameter; `None` if it is missing or Python's `None`.
    pub(super) fn optional(&self, name: &str) -> Option<&PythonValue> {
        self.place(name).filter(|value| !matches!(value, PythonValue::None))
    }

    pub(super) fn value(&self, name: &str) -> Result<&PythonValue> {
        self.place(name).ok_or_else(|| format!("`{name}` is missing"))
    }

    /// Returns a number as a float.
    pub(super) fn float(&self, name: &str) -> Result<f64> {
        let value = self.value(name)?;
        if value.is_sequence() {
            return Err(format!(
                "`{name}` must be a number, found {}; for lists there are np. functions",
                value.kind()
            ));
        }
        value.float()
    }

    pub(super) fn float_or(&self, name: &str, default: f64) -> Result<f64> {
        if self.optional(name).is_some() { self.float(name) } else { Ok(default) }
    }

    /// Returns an integer of any size.
    pub(super) fn integer(&self, name: &str) -> Result<num_bigint::BigInt> {
        let value = self.value(name)?;
        value
            .as_integer()
            .ok_or_else(|| format!("`{name}` must be a whole number, found {}", value.kind()))
    }

    /// Returns an integer of at least 0.
    pub(super) fn nonnegative_integer(&self, name: &str) -> Result<num_bigint::BigInt> {
        let number = self.integer(name)?;
        if number.sign() == num_bigint::Sign::Minus {
            return Err(format!("`{name}` must be at least 0"));
        }
        Ok(number)
    }

    pub(super) fn index_or(&self, name: &str, default: i64) -> Result<i64> {
        self.optional(name).map_or(Ok(default), |value| value.index(name))
    }

    /// Returns a number or list as a NumPy array.
    pub(super) fn array(&self, name: &str) -> Result<NumpyArray> {
        NumpyArray::from_value(self.value(name)?)
    }
}
