//! Argument access with error messages that name the field, the fault and the allowed values.
//!
//! The gateway has validated the arguments against the schema; this module checks what a schema
//! cannot express.

mod number_cursor;

use std::ops::RangeInclusive;

use builtins::{CompiledExpression, Expression};
use faer::Mat;
use serde_json::Value;
use tool::CallArguments;

/// Arguments of one call, or a part of them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ToolArguments<'a> {
    /// All arguments. The JSON tree is built on demand: for large lists it is many times larger
    /// than the text.
    Whole(&'a CallArguments),
    /// Object inside the arguments.
    Part(&'a Value),
}

impl<'a> ToolArguments<'a> {
    pub(crate) fn from_args(args: &'a CallArguments) -> Self {
        Self::Whole(args)
    }

    /// Wraps an object inside the arguments, for the same access and error messages.
    pub(crate) fn from_value(value: &'a Value) -> Self {
        Self::Part(value)
    }

    /// Returns the value of a field; `None` if it is missing or `null`.
    pub(crate) fn get_value(self, name: &str) -> Option<&'a Value> {
        let all = match self {
            Self::Whole(args) => args.as_value(),
            Self::Part(value) => value,
        };
        all.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn has_value(self, name: &str) -> bool {
        self.get_value(name).is_some()
    }

    pub(crate) fn required_value(self, name: &str) -> Result<&'a Value, String> {
        self.get_value(name).ok_or_else(|| format!("`{name}` is missing"))
    }

    pub(crate) fn string_value(self, name: &str) -> Result<&'a str, String> {
        let value = self.required_value(name)?;
        value.as_str().ok_or_else(|| format!("`{name}` is {}, it must be text", type_name(value)))
    }

    pub(crate) fn string_or(self, name: &str, default: &'a str) -> Result<&'a str, String> {
        if self.has_value(name) { self.string_value(name) } else { Ok(default) }
    }

    /// Returns one of the allowed words.
    pub(crate) fn one_of(
        self,
        name: &str,
        default: &'static str,
        allowed: &[&'static str],
    ) -> Result<&'static str, String> {
        let given = self.string_or(name, default)?;
        allowed.iter().find(|word| **word == given).copied().ok_or_else(|| {
            format!(
                "`{name}` is `{}`; it must be one of {}",
                escape_for_message(given),
                allowed.join(", ")
            )
        })
    }

    pub(crate) fn bool_or_false(self, name: &str) -> Result<bool, String> {
        let Some(value) = self.get_value(name) else { return Ok(false) };
        value
            .as_bool()
            .ok_or_else(|| format!("`{name}` is {}, it must be true or false", type_name(value)))
    }

    /// Returns an integer within its limits.
    pub(crate) fn integer_in(
        self,
        name: &str,
        default: u64,
        limits: RangeInclusive<u64>,
    ) -> Result<u64, String> {
        let Some(value) = self.get_value(name) else { return Ok(default) };
        let whole = value.as_u64().or_else(|| integral_number(value.as_f64()?));
        whole.filter(|whole| limits.contains(whole)).ok_or_else(|| {
            let (least, most) = (limits.start(), limits.end());
            let found = escape_for_message(&value.to_string());
            format!("`{name}` is {found}; it must be a whole number from {least} to {most}")
        })
    }

    /// Returns a count within its limits.
    pub(crate) fn usize_in(
        self,
        name: &str,
        default: usize,
        limits: RangeInclusive<usize>,
    ) -> Result<usize, String> {
        let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let limits = wide(*limits.start())..=wide(*limits.end());
        let whole = self.integer_in(name, wide(default), limits)?;
        usize::try_from(whole).map_err(|_| format!("`{name}` is too large"))
    }

    /// Returns a required finite number.
    pub(crate) fn f64_value(self, name: &str) -> Result<f64, String> {
        finite_number(self.required_value(name)?)
            .ok_or_else(|| format!("`{name}` must be a number"))
    }

    pub(crate) fn f64_or(self, name: &str, default: f64) -> Result<f64, String> {
        if self.has_value(name) { self.f64_value(name) } else { Ok(default) }
    }

    /// Returns a number above zero.
    pub(crate) fn positive_or(self, name: &str, default: f64) -> Result<f64, String> {
        let number = self.f64_or(name, default)?;
        let good = number > 0.0;
        good.then_some(number).ok_or_else(|| format!("`{name}` is {number}; it must be above 0"))
    }

    /// Returns a list of finite numbers, with a length within the limits.
    pub(crate) fn f64_list(
        self,
        name: &str,
        limits: RangeInclusive<usize>,
    ) -> Result<Vec<f64>, String> {
        if let Some(numbers) = self.try_f64_list(name).filter(|it| limits.contains(&it.len())) {
            return Ok(numbers);
        }
        let list = self.array_value(name)?;
        let numbers = parse_numbers(name, list)?;
        let count = numbers.len();
        if limits.contains(&count) {
            return Ok(numbers);
        }
        let (least, most) = (limits.start(), limits.end());
        Err(format!("`{name}` has {count} numbers; it must have from {least} to {most}"))
    }

    pub(crate) fn array_value(self, name: &str) -> Result<&'a [Value], String> {
        let value = self.required_value(name)?;
        let list = value.as_array().map(Vec::as_slice);
        list.ok_or_else(|| format!("`{name}` is {}, it must be a list", type_name(value)))
    }

    /// Returns lists of numbers, at most `max_rows` of them.
    pub(crate) fn f64_rows(self, name: &str, max_rows: usize) -> Result<Vec<Vec<f64>>, String> {
        let rows = self.array_value(name)?;
        if rows.len() > max_rows {
            let found = rows.len();
            return Err(format!("`{name}` has {found} lists; at most {max_rows} are allowed"));
        }
        let row = |(i, row): (usize, &Value)| {
            let place = format!("{name}[{i}]");
            let list = row.as_array();
            let list =
                list.ok_or_else(|| format!("`{place}` is {}, it must be a list", type_name(row)))?;
            parse_numbers(&place, list)
        };
        rows.iter().enumerate().map(row).collect()
    }

    /// Returns a matrix with at most `max_size` rows and columns.
    pub(crate) fn matrix_value(self, name: &str, max_size: usize) -> Result<Mat<f64>, String> {
        if let Some(matrix) = self.try_matrix(name, max_size) {
            return Ok(matrix);
        }
        let rows = self.array_value(name)?;
        let width = rows.first().and_then(Value::as_array).map_or(0, Vec::len);
        if rows.len() > max_size || width > max_size {
            let (rows, max_size) = (rows.len(), max_size);
            return Err(format!(
                "`{name}` is {rows} × {width}; at most {max_size} × {max_size} are allowed"
            ));
        }
        let mut matrix = Mat::zeros(rows.len(), width);
        for (i, row) in rows.iter().enumerate() {
            let place = format!("{name}[{i}]");
            let row = row.as_array().ok_or_else(|| {
                format!("`{place}` is {}, it must be a row of numbers", type_name(row))
            })?;
            let row = parse_numbers(&place, row)?;
            if row.len() != width {
                let found = row.len();
                return Err(format!(
                    "row {} of `{name}` has {found} numbers, but row 1 has {width}; all rows must \
                     have the same length",
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

    /// Parses `[[least, most], …]`, one interval per dimension.
    pub(crate) fn interval_list(
        self,
        name: &str,
        max_intervals: usize,
    ) -> Result<Vec<(f64, f64)>, String> {
        let list = self.array_value(name)?;
        if list.is_empty() || list.len() > max_intervals {
            let found = list.len();
            return Err(format!(
                "`{name}` has {found} dimensions; it must have from 1 to {max_intervals}"
            ));
        }
        list.iter()
            .enumerate()
            .map(|(i, pair)| parse_interval(&format!("{name}[{i}]"), pair))
            .collect()
    }

    /// Compiles an expression. `variable` maps a name to its slot; `known_names` lists the names
    /// for error messages.
    pub(crate) fn compile_field(
        self,
        name: &str,
        variable: impl Fn(&str) -> Option<usize>,
        known_names: &str,
    ) -> Result<CompiledExpression, String> {
        compile_expression(name, self.string_value(name)?, variable, known_names)
    }
}

/// Compiles an expression from the field `name`.
pub(crate) fn compile_expression(
    name: &str,
    text: &str,
    variable: impl Fn(&str) -> Option<usize>,
    known_names: &str,
) -> Result<CompiledExpression, String> {
    Expression(text).compile(variable).map_err(|error| {
        let hint = error.message.starts_with("unknown name");
        let hint = if hint { format!("; the variables are {known_names}") } else { String::new() };
        format!("`{name}`: {error}{hint}")
    })
}

/// Maps `x0`, `x1`, … to slots; `x` alone is the first.
pub(crate) fn indexed_variable(letter: char, count: usize) -> impl Fn(&str) -> Option<usize> {
    move |name: &str| {
        let number = name.strip_prefix(letter)?;
        let slot = if number.is_empty() { 0 } else { number.parse().ok()? };
        (slot < count).then_some(slot)
    }
}

/// Lists the names of such variables, for error messages.
pub(crate) fn variable_names_text(letter: char, count: usize) -> String {
    match count {
        1 => format!("{letter} or {letter}0"),
        2 => format!("{letter}0 and {letter}1"),
        _ => format!("{letter}0 to {letter}{}", count - 1),
    }
}

fn parse_numbers(place: &str, list: &[Value]) -> Result<Vec<f64>, String> {
    let number = |(i, value): (usize, &Value)| {
        finite_number(value)
            .ok_or_else(|| format!("`{place}[{i}]` is {}, it must be a number", type_name(value)))
    };
    list.iter().enumerate().map(number).collect()
}

fn parse_interval(place: &str, pair: &Value) -> Result<(f64, f64), String> {
    let wanted = || format!("`{place}` must be two numbers, the lower first");
    let pair = pair.as_array().map(Vec::as_slice).ok_or_else(wanted)?;
    match parse_numbers(place, pair)?.as_slice() {
        [least, most] if least < most && (most - least).is_finite() => Ok((*least, *most)),
        _ => Err(wanted()),
    }
}

fn finite_number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole, and between 0 and 2^53"
)]
fn integral_number(number: f64) -> Option<u64> {
    let good = number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number);
    good.then_some(number as u64)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Shortens user input for an error message on one line.
pub(crate) fn escape_for_message(text: &str) -> String {
    let clean: String =
        text.chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().count() > 40 { format!("{clean}…") } else { clean }
}
