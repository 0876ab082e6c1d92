//! The arguments of a call, by the names of its parameters.

use super::arrays::Array;
use super::value::Value;

type Result<T> = std::result::Result<T, String>;

/// What a function takes, in Python's words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signature {
    /// The parameters in their order; a last one that begins with `*` takes any number of values.
    pub(super) parameters: &'static [&'static str],
    /// How many of them have no default.
    pub(super) required: usize,
}

/// Values by parameter.
#[derive(Debug)]
pub(super) struct Arguments {
    parameters: &'static [&'static str],
    values: Vec<Option<Value>>,
    /// What a `*` took.
    pub(super) rest: Vec<Value>,
}

impl Arguments {
    /// Puts each value to its parameter.
    pub(super) fn bind(
        name: &str,
        signature: Signature,
        positional: Vec<Value>,
        keywords: Vec<(String, Value)>,
    ) -> Result<Self> {
        let Signature { parameters, required } = signature;
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
        let mut values: Vec<Option<Value>> = (0..plain).map(|_| positional.next()).collect();
        for (key, value) in keywords {
            let place = parameters.iter().position(|own| *own == key);
            let Some(slot) = place.and_then(|place| values.get_mut(place)) else {
                let known = parameters.join(", ");
                return Err(format!("`{name}` has no parameter `{key}`; it has {known}"));
            };
            if slot.replace(value).is_some() {
                return Err(format!("`{name}` was given `{key}` twice"));
            }
        }
        let missing = values.iter().take(required).position(Option::is_none);
        if let Some(missing) = missing.and_then(|at| parameters.get(at)) {
            return Err(format!("`{name}` needs `{missing}`"));
        }
        Ok(Self { parameters, values, rest: positional.collect() })
    }

    fn place(&self, name: &str) -> Option<&Value> {
        let place = self.parameters.iter().position(|own| *own == name)?;
        self.values.get(place)?.as_ref()
    }

    /// What was given for a parameter; `None` of Python is as good as nothing.
    pub(super) fn optional(&self, name: &str) -> Option<&Value> {
        self.place(name).filter(|value| !matches!(value, Value::None))
    }

    pub(super) fn value(&self, name: &str) -> Result<&Value> {
        self.place(name).ok_or_else(|| format!("`{name}` is missing"))
    }

    /// A number as a float.
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

    /// A whole number of any size.
    pub(super) fn whole(&self, name: &str) -> Result<num_bigint::BigInt> {
        let value = self.value(name)?;
        value
            .whole()
            .ok_or_else(|| format!("`{name}` must be a whole number, found {}", value.kind()))
    }

    /// A whole number of at least 0.
    pub(super) fn natural(&self, name: &str) -> Result<num_bigint::BigInt> {
        let number = self.whole(name)?;
        if number.sign() == num_bigint::Sign::Minus {
            return Err(format!("`{name}` must be at least 0"));
        }
        Ok(number)
    }

    pub(super) fn index_or(&self, name: &str, default: i64) -> Result<i64> {
        self.optional(name).map_or(Ok(default), |value| value.index(name))
    }

    /// A number or list, as numpy takes it.
    pub(super) fn array(&self, name: &str) -> Result<Array> {
        Array::from_value(self.value(name)?)
    }
}
