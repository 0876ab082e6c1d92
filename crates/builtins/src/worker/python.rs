//! Python, by monty: an interpreter of its own, with nothing around it.

use std::time::Duration;

use monty::MontyRun;
use monty_types::{
    CompileOptions, MontyException, MontyObject, PrintWriter, ResourceLimits, ResourceTracker,
};
use serde::Deserialize;
use serde_json::{Map, Number, Value};

/// Bytes that a program may have in memory.
pub(super) const MEMORY: usize = 64 << 20;
/// Calls within calls.
pub(super) const DEPTH: usize = 200;
/// Values within values of an answer.
const NESTED: usize = 60;
/// Longest message of an error, in characters.
const LONGEST: usize = 2_000;

/// What stands before a program that rounds: monty rounds to digits by a product, which is not exact, so
/// that 2.675 would become 2.68. As text the number is rounded as Python does it.
pub(super) const ROUND: &str = "\
def round(number, ndigits=None, *, _round=round):
    if isinstance(number, float) and isinstance(ndigits, int) and not isinstance(ndigits, bool):
        if 0 <= ndigits <= 323:
            return float(f'{number:.{ndigits}f}')
    return _round(number, ndigits)
";

#[derive(Deserialize)]
struct Asked {
    expression: String,
    #[serde(default)]
    variables: Option<Map<String, Value>>,
}

/// The value of the last expression, as JSON; or the error, as Python writes it.
pub(super) fn evaluate(args: &[u8], limit: Duration) -> Result<Vec<u8>, String> {
    let asked: Asked = serde_json::from_slice(args).map_err(|error| error.to_string())?;
    let mut names = Vec::new();
    let mut values = Vec::new();
    for (name, value) in asked.variables.unwrap_or_default() {
        if !is_name(&name) {
            let shown: String = name.chars().take(100).flat_map(char::escape_debug).collect();
            return Err(format!("variables: `{shown}` is no name of Python"));
        }
        names.push(name);
        values.push(object(value)?);
    }
    let code = asked.expression.trim();
    let before = if code.contains("round") { ROUND } else { "" };
    let code = format!("{before}{code}");
    let limits =
        ResourceLimits::default().max_duration(limit).max_memory(MEMORY).max_recursion_depth(DEPTH);
    let program = MontyRun::new(code, "expression", names, CompileOptions::default());
    let run = program.and_then(|program| {
        program.run(values, ResourceTracker::new(limits), PrintWriter::Disabled)
    });
    let value = json(&run.map_err(|error| told(&error, before.lines().count()))?, 0)?;
    serde_json::to_vec(&value).map_err(|error| error.to_string())
}

pub(super) fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_')
        && name.len() <= 200
}

/// In one line: the kind, what it says, and the line of the program, which begins after so many others.
pub(super) fn told(error: &MontyException, before: usize) -> String {
    let own = |line: u32| usize::try_from(line).ok()?.checked_sub(before).filter(|line| *line > 0);
    let line = error.traceback().iter().rev().find_map(|frame| own(frame.start.line));
    let place = line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let text: String = error.summary().chars().take(LONGEST).collect();
    let text = text.replace("OS function ", "").replace(
        "not implemented with standard execution",
        "is not there: no files, no environment, no programs",
    );
    format!("{}{place}", text.replace('\n', " "))
}

pub(super) fn object(value: Value) -> Result<MontyObject, String> {
    Ok(match value {
        Value::Null => MontyObject::None,
        Value::Bool(value) => MontyObject::Bool(value),
        Value::String(text) => MontyObject::String(text),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => MontyObject::Int(whole),
            (None, Some(real)) => MontyObject::Float(real),
            (None, None) => return Err(format!("variables: {number} is no number of Python")),
        },
        Value::Array(items) => {
            MontyObject::List(items.into_iter().map(object).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let pair = |(name, value)| Ok((MontyObject::String(name), object(value)?));
            MontyObject::Dict(
                fields.into_iter().map(pair).collect::<Result<Vec<_>, String>>()?.into(),
            )
        }
    })
}

/// What JSON has is told as it is; what is a sequence is a list; all else as Python writes it.
pub(super) fn json(object: &MontyObject, depth: usize) -> Result<Value, String> {
    if depth > NESTED {
        return Err(format!("the value nests deeper than {NESTED}"));
    }
    let list = |items: &[MontyObject]| -> Result<Value, String> {
        items
            .iter()
            .map(|item| json(item, depth + 1))
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
                fields.insert(key, json(value, depth + 1)?);
            }
            Value::Object(fields)
        }
        other => Value::String(other.to_string()),
    })
}
