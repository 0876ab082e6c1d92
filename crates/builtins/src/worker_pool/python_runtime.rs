//! Python evaluation with monty, an interpreter without access to the system.

mod source_rewriter;

use std::borrow::Cow;
use std::time::Duration;

use monty::MontyRun;
use monty_types::{
    CompileOptions, MontyException, MontyObject, PrintWriter, PrintWriterCallback, ResourceLimits,
    ResourceTracker,
};
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use tool::display_text::truncate_and_escape_debug;

use source_rewriter::PythonSource;

/// Memory limit of a program, in bytes.
pub(super) const MAX_MEMORY_BYTES: usize = 64 << 20;
/// Maximum depth of nested calls.
pub(super) const MAX_RECURSION_DEPTH: usize = 200;
/// Largest nesting depth of a result.
const MAX_RESULT_DEPTH: usize = 60;
/// Longest error message, in characters.
const MAX_MESSAGE_CHARS: usize = 2_000;
/// Largest captured output of a program, in bytes.
const MAX_PRINTED_BYTES: usize = 64 << 10;
/// Modules of the interpreter.
const MODULES: &str =
    "math, json, re, datetime, collections, itertools, functools, dataclasses, typing, base64";

/// Prelude that replaces `round`. monty rounds to digits by a product, which is inexact: 2.675
/// would become 2.68. Formatting as text rounds as CPython does.
pub(super) const ROUND_PRELUDE: &str = "\
def round(number, ndigits=None, *, _round=round):
    if isinstance(number, float) and isinstance(ndigits, int) and not isinstance(ndigits, bool):
        if 0 <= ndigits <= 323:
            return float(f'{number:.{ndigits}f}')
    return _round(number, ndigits)
";

#[derive(Deserialize)]
struct PythonEvalArgs {
    expression: String,
    #[serde(default)]
    variables: Option<Map<String, Value>>,
}

/// Evaluates Python code and returns the value of the last expression as JSON, or the error as
/// Python formats it.
pub(super) fn evaluate_python(args: &[u8], limit: Duration) -> Result<Vec<u8>, String> {
    let asked: PythonEvalArgs = serde_json::from_slice(args).map_err(|error| error.to_string())?;
    let mut names = Vec::new();
    let mut values = Vec::new();
    for (name, value) in asked.variables.unwrap_or_default() {
        if !is_python_name(&name) {
            let shown = truncate_and_escape_debug(&name, 100);
            return Err(format!("variables: `{shown}` is not a valid Python name"));
        }
        names.push(name);
        values.push(value_from_json(value)?);
    }
    let code = asked.expression.trim();
    let mut source = PythonSource::new(code, false);
    let (mut run, mut printed) = source.run_program(&names, &values, limit);
    if run.as_ref().is_err_and(is_unsupported_operator) {
        // The program has no side effects, so it may start again. The job's deadline covers both
        // runs.
        let again = PythonSource::new(code, true);
        let (second, text) = again.run_program(&names, &values, limit);
        // If the rewritten program does not parse, the first error counts.
        if !second.as_ref().is_err_and(|error| error.summary().starts_with("SyntaxError")) {
            (source, run, printed) = (again, second, text);
        }
    }
    let value = value_to_json(&run.map_err(|error| error_message(&error, &source, &printed))?, 0)?;
    serde_json::to_vec(&result_json(value, printed)).map_err(|error| error.to_string())
}

impl PythonSource {
    /// Runs the program and returns its value and its printed output.
    fn run_program(
        &self,
        names: &[String],
        values: &[MontyObject],
        limit: Duration,
    ) -> (Result<MontyObject, MontyException>, String) {
        let limits = ResourceLimits::default()
            .max_duration(limit)
            .max_memory(MAX_MEMORY_BYTES)
            .max_recursion_depth(MAX_RECURSION_DEPTH);
        let mut printed = PrintedOutput::default();
        let options = CompileOptions::default();
        let program = MontyRun::new(self.code.clone(), "expression", names.to_vec(), options);
        let run = program.and_then(|program| {
            let tracker = ResourceTracker::new(limits);
            program.run(values.to_vec(), tracker, PrintWriter::Callback(&mut printed))
        });
        (run, printed.into_text())
    }
}

/// Returns whether monty lacks an operator that Python has: arithmetic on booleans, formatting with
/// `%`.
fn is_unsupported_operator(error: &MontyException) -> bool {
    let text = error.summary();
    let unsupported = text.starts_with("TypeError: unsupported operand type(s) for ");
    let formats = text.contains(" %: 'str' and ");
    unsupported && (formats || text.contains("'bool'"))
}

/// Returns the value, wrapped with the printed output if there is any.
fn result_json(value: Value, printed: String) -> Value {
    if printed.is_empty() {
        return value;
    }
    let mut answer = Map::new();
    answer.insert("value".to_owned(), value);
    answer.insert("printed".to_owned(), Value::String(printed));
    Value::Object(answer)
}

/// Formats the error with its line, the printed output before it, and the alternatives to a missing
/// module.
fn error_message(error: &MontyException, source: &PythonSource, printed: &str) -> String {
    let mut text = format_exception(error, source.prelude_lines);
    if text.starts_with("ModuleNotFoundError") {
        let own: Vec<_> = source_rewriter::module_names().collect();
        text = format!("{text}; there are {MODULES}, {}", own.join(", "));
        if text.contains("'decimal'") || text.contains("'fractions'") {
            text.push_str("; whole numbers are exact at any size: count in the smallest unit");
        } else if text.contains("'numpy'") {
            text.push_str("; the tool calculate has np. functions, matrix_op has matrices");
        }
    }
    if !printed.is_empty() {
        let end: String = printed.chars().rev().take(MAX_MESSAGE_CHARS).collect();
        let end: String = end.chars().rev().collect();
        text = format!("{text}; printed before: {}", end.trim_end().replace('\n', "\\n"));
    }
    text
}

/// Printed output of a program, up to a limit.
#[derive(Default)]
struct PrintedOutput {
    text: String,
    is_truncated: bool,
}

impl PrintedOutput {
    fn append_text(&mut self, text: &str) {
        let left = MAX_PRINTED_BYTES.saturating_sub(self.text.len());
        let end = (0..=left.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        self.text.push_str(text.get(..end.unwrap_or(0)).unwrap_or_default());
        self.is_truncated |= text.len() > left;
    }

    fn into_text(mut self) -> String {
        if self.is_truncated {
            self.text.push_str("\n… the output was cut after 65536 bytes");
        }
        self.text
    }
}

impl PrintWriterCallback for PrintedOutput {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.append_text(&output);
        Ok(())
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.append_text(end.encode_utf8(&mut [0; 4]));
        Ok(())
    }
}

pub(super) fn is_python_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_')
        && name.len() <= 200
}

/// Formats an exception as one line: kind, message and line number of the program after
/// `prelude_lines` prelude lines.
pub(super) fn format_exception(error: &MontyException, prelude_lines: usize) -> String {
    let own =
        |line: u32| usize::try_from(line).ok()?.checked_sub(prelude_lines).filter(|line| *line > 0);
    let line = error.traceback().iter().rev().find_map(|frame| own(frame.start.line));
    let place = line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let text: String = error.summary().chars().take(MAX_MESSAGE_CHARS).collect();
    let text = text.replace("OS function ", "").replace(
        "not implemented with standard execution",
        "is not there: no files, no environment, no programs",
    );
    format!("{}{place}", text.replace('\n', " "))
}

pub(super) fn value_from_json(value: Value) -> Result<MontyObject, String> {
    Ok(match value {
        Value::Null => MontyObject::None,
        Value::Bool(value) => MontyObject::Bool(value),
        Value::String(text) => MontyObject::String(text),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => MontyObject::Int(whole),
            (None, Some(real)) => MontyObject::Float(real),
            (None, None) => {
                return Err(format!("variables: {number} is not a valid Python number"));
            }
        },
        Value::Array(items) => {
            MontyObject::List(items.into_iter().map(value_from_json).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let pair = |(name, value)| Ok((MontyObject::String(name), value_from_json(value)?));
            MontyObject::Dict(
                fields.into_iter().map(pair).collect::<Result<Vec<_>, String>>()?.into(),
            )
        }
    })
}

/// Converts a Python value to JSON: sequences become arrays, types that JSON lacks become their
/// Python text.
pub(super) fn value_to_json(object: &MontyObject, depth: usize) -> Result<Value, String> {
    if depth > MAX_RESULT_DEPTH {
        return Err(format!("the value is nested deeper than {MAX_RESULT_DEPTH} levels"));
    }
    let list = |items: &[MontyObject]| -> Result<Value, String> {
        items
            .iter()
            .map(|item| value_to_json(item, depth + 1))
            .collect::<Result<Vec<_>, _>>()
            .map(Value::Array)
    };
    Ok(match object {
        MontyObject::None => Value::Null,
        MontyObject::Bool(value) => Value::Bool(*value),
        MontyObject::Int(whole) => Value::Number((*whole).into()),
        MontyObject::Float(real) => {
            Number::from_f64(*real).map_or_else(|| Value::String(real.to_string()), Value::Number)
        }
        MontyObject::BigInt(whole) => Value::String(whole.to_string()),
        MontyObject::String(text) | MontyObject::Path(text) | MontyObject::Repr(text) => {
            Value::String(text.clone())
        }
        MontyObject::List(items)
        | MontyObject::Tuple(items)
        | MontyObject::Set(items)
        | MontyObject::FrozenSet(items)
        | MontyObject::NamedTuple { values: items, .. } => list(items)?,
        MontyObject::Dict(pairs) => {
            let mut fields = Map::new();
            for (key, value) in pairs {
                let key = match key {
                    MontyObject::String(text) => text.clone(),
                    other => other.to_string(),
                };
                fields.insert(key, value_to_json(value, depth + 1)?);
            }
            Value::Object(fields)
        }
        other => Value::String(other.to_string()),
    })
}
