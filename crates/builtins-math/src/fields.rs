//! Argument access with error messages that name the field, the fault and the allowed values.
//!
//! The gateway has checked the arguments against the schema; what a schema cannot say is checked here.

mod text;

use std::ops::RangeInclusive;

use builtins::{Expression, Program};
use faer::Mat;
use serde_json::Value;
use tool::Args;

/// The arguments of one call, or a part of them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fields<'a> {
    /// All. A tree is made of them where one is asked for: of large lists it is many times the text.
    Whole(&'a Args),
    /// An object inside of them.
    Part(&'a Value),
}

impl<'a> Fields<'a> {
    pub(crate) fn of(args: &'a Args) -> Self {
        Self::Whole(args)
    }

    /// The same words for an object inside of the arguments.
    pub(crate) fn inside(value: &'a Value) -> Self {
        Self::Part(value)
    }

    /// What is there; `null` is as good as nothing.
    pub(crate) fn get(self, name: &str) -> Option<&'a Value> {
        let all = match self {
            Self::Whole(args) => args.value(),
            Self::Part(value) => value,
        };
        all.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn required(self, name: &str) -> Result<&'a Value, String> {
        self.get(name).ok_or_else(|| format!("`{name}` is missing"))
    }

    pub(crate) fn text(self, name: &str) -> Result<&'a str, String> {
        let value = self.required(name)?;
        value.as_str().ok_or_else(|| format!("`{name}` is {}, it must be text", kind(value)))
    }

    pub(crate) fn text_or(self, name: &str, default: &'a str) -> Result<&'a str, String> {
        if self.has(name) { self.text(name) } else { Ok(default) }
    }

    /// One of a few words.
    pub(crate) fn choice(
        self,
        name: &str,
        default: &'static str,
        words: &[&'static str],
    ) -> Result<&'static str, String> {
        let given = self.text_or(name, default)?;
        words.iter().find(|word| **word == given).copied().ok_or_else(|| {
            format!("`{name}` is `{}`; it must be one of {}", shown(given), words.join(", "))
        })
    }

    pub(crate) fn flag(self, name: &str) -> Result<bool, String> {
        let Some(value) = self.get(name) else { return Ok(false) };
        value
            .as_bool()
            .ok_or_else(|| format!("`{name}` is {}, it must be true or false", kind(value)))
    }

    /// A whole number inside of its limits.
    pub(crate) fn whole(
        self,
        name: &str,
        default: u64,
        limits: RangeInclusive<u64>,
    ) -> Result<u64, String> {
        let Some(value) = self.get(name) else { return Ok(default) };
        let whole = value.as_u64().or_else(|| whole(value.as_f64()?));
        whole.filter(|whole| limits.contains(whole)).ok_or_else(|| {
            let (least, most) = (limits.start(), limits.end());
            let found = shown(&value.to_string());
            format!("`{name}` is {found}; it must be a whole number from {least} to {most}")
        })
    }

    /// The same as a count.
    pub(crate) fn count(
        self,
        name: &str,
        default: usize,
        limits: RangeInclusive<usize>,
    ) -> Result<usize, String> {
        let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let limits = wide(*limits.start())..=wide(*limits.end());
        let whole = self.whole(name, wide(default), limits)?;
        usize::try_from(whole).map_err(|_| format!("`{name}` is too large"))
    }

    /// A finite number.
    pub(crate) fn number(self, name: &str) -> Result<f64, String> {
        finite(self.required(name)?).ok_or_else(|| format!("`{name}` must be a number"))
    }

    pub(crate) fn number_or(self, name: &str, default: f64) -> Result<f64, String> {
        if self.has(name) { self.number(name) } else { Ok(default) }
    }

    /// A number above zero.
    pub(crate) fn positive(self, name: &str, default: f64) -> Result<f64, String> {
        let number = self.number_or(name, default)?;
        let good = number > 0.0;
        good.then_some(number).ok_or_else(|| format!("`{name}` is {number}; it must be above 0"))
    }

    /// A list of finite numbers, of so many.
    pub(crate) fn numbers(
        self,
        name: &str,
        limits: RangeInclusive<usize>,
    ) -> Result<Vec<f64>, String> {
        if let Some(numbers) = self.plain_numbers(name).filter(|it| limits.contains(&it.len())) {
            return Ok(numbers);
        }
        let list = self.list(name)?;
        let numbers = numbers(name, list)?;
        let count = numbers.len();
        if limits.contains(&count) {
            return Ok(numbers);
        }
        let (least, most) = (limits.start(), limits.end());
        Err(format!("`{name}` has {count} numbers; it must have from {least} to {most}"))
    }

    pub(crate) fn list(self, name: &str) -> Result<&'a [Value], String> {
        let value = self.required(name)?;
        let list = value.as_array().map(Vec::as_slice);
        list.ok_or_else(|| format!("`{name}` is {}, it must be a list", kind(value)))
    }

    /// Lists of numbers, at most `most` of them.
    pub(crate) fn rows(self, name: &str, most: usize) -> Result<Vec<Vec<f64>>, String> {
        let rows = self.list(name)?;
        if rows.len() > most {
            let found = rows.len();
            return Err(format!("`{name}` has {found} lists; at most {most} are allowed"));
        }
        let row = |(i, row): (usize, &Value)| {
            let place = format!("{name}[{i}]");
            let list = row.as_array();
            let list =
                list.ok_or_else(|| format!("`{place}` is {}, it must be a list", kind(row)))?;
            numbers(&place, list)
        };
        rows.iter().enumerate().map(row).collect()
    }

    /// Rows of equal length, at most `most` of them and as long.
    pub(crate) fn matrix(self, name: &str, most: usize) -> Result<Mat<f64>, String> {
        if let Some(matrix) = self.plain_matrix(name, most) {
            return Ok(matrix);
        }
        let rows = self.list(name)?;
        let width = rows.first().and_then(Value::as_array).map_or(0, Vec::len);
        if rows.len() > most || width > most {
            let (rows, most) = (rows.len(), most);
            return Err(format!(
                "`{name}` is {rows} × {width}; at most {most} × {most} are allowed"
            ));
        }
        let mut matrix = Mat::zeros(rows.len(), width);
        for (i, row) in rows.iter().enumerate() {
            let place = format!("{name}[{i}]");
            let row = row.as_array().ok_or_else(|| {
                format!("`{place}` is {}, it must be a row of numbers", kind(row))
            })?;
            let row = numbers(&place, row)?;
            if row.len() != width {
                let found = row.len();
                return Err(format!(
                    "row {} of `{name}` has {found} numbers, row 1 has {width}; all rows must be as long",
                    i + 1
                ));
            }
            row.into_iter().enumerate().for_each(|(j, x)| matrix[(i, j)] = x);
        }
        if width == 0 {
            return Err(format!("`{name}` is empty; it must have at least one row and one column"));
        }
        Ok(matrix)
    }

    /// `[[least, most], …]`, one for each dimension.
    pub(crate) fn bounds(self, name: &str, most: usize) -> Result<Vec<(f64, f64)>, String> {
        let list = self.list(name)?;
        if list.is_empty() || list.len() > most {
            let found = list.len();
            return Err(format!("`{name}` has {found} dimensions; it must have from 1 to {most}"));
        }
        list.iter().enumerate().map(|(i, pair)| bound(&format!("{name}[{i}]"), pair)).collect()
    }

    /// An expression, compiled. `variable` says which slot a name stands for, `known` tells which there
    /// are.
    pub(crate) fn expression(
        self,
        name: &str,
        variable: impl Fn(&str) -> Option<usize>,
        known: &str,
    ) -> Result<Program, String> {
        compiled(name, self.text(name)?, variable, known)
    }
}

/// An expression from the field `name`, compiled.
pub(crate) fn compiled(
    name: &str,
    text: &str,
    variable: impl Fn(&str) -> Option<usize>,
    known: &str,
) -> Result<Program, String> {
    Expression(text).compile(variable).map_err(|error| {
        let hint = error.message.starts_with("unknown name");
        let hint = if hint { format!("; the variables are {known}") } else { String::new() };
        format!("`{name}`: {error}{hint}")
    })
}

/// Slots of `x0`, `x1`, … ; `x` alone is the first.
pub(crate) fn numbered(letter: char, count: usize) -> impl Fn(&str) -> Option<usize> {
    move |name: &str| {
        let number = name.strip_prefix(letter)?;
        let slot = if number.is_empty() { 0 } else { number.parse().ok()? };
        (slot < count).then_some(slot)
    }
}

/// The names of such variables, for people.
pub(crate) fn names(letter: char, count: usize) -> String {
    match count {
        1 => format!("{letter} or {letter}0"),
        2 => format!("{letter}0 and {letter}1"),
        _ => format!("{letter}0 to {letter}{}", count - 1),
    }
}

fn numbers(place: &str, list: &[Value]) -> Result<Vec<f64>, String> {
    let number = |(i, value): (usize, &Value)| {
        finite(value)
            .ok_or_else(|| format!("`{place}[{i}]` is {}, it must be a number", kind(value)))
    };
    list.iter().enumerate().map(number).collect()
}

fn bound(place: &str, pair: &Value) -> Result<(f64, f64), String> {
    let wanted = || format!("`{place}` must be two numbers, the lower first");
    let pair = pair.as_array().map(Vec::as_slice).ok_or_else(wanted)?;
    match numbers(place, pair)?.as_slice() {
        [least, most] if least < most && (most - least).is_finite() => Ok((*least, *most)),
        _ => Err(wanted()),
    }
}

fn finite(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole, and between 0 and 2^53"
)]
fn whole(number: f64) -> Option<u64> {
    let good = number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number);
    good.then_some(number as u64)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// User input in an error: short, on one line.
pub(crate) fn shown(text: &str) -> String {
    let clean: String =
        text.chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().count() > 40 { format!("{clean}…") } else { clean }
}
