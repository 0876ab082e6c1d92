//! Access to fields of the server's JSON; missing fields and those of another type read as empty.

use serde_json::Value;

use super::printer;

/// Returns a field as sanitized text; numbers and booleans as written, lists joined by commas.
pub fn field_text(value: &Value, key: &str) -> String {
    match value.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => printer::sanitize_text(text),
        Some(Value::Array(items)) => {
            let words = items.iter().map(|item| match item {
                Value::String(text) => printer::sanitize_line(text, 80),
                other => other.to_string(),
            });
            words.collect::<Vec<_>>().join(", ")
        }
        Some(other) => other.to_string(),
    }
}

/// Returns a field as one sanitized line.
pub fn field_line(value: &Value, key: &str, width: usize) -> String {
    printer::sanitize_line(&field_text(value, key), width)
}

/// Returns a field as a list.
pub fn field_items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
