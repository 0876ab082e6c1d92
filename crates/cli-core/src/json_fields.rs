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

/// The most characters of the parts of a problem.
#[derive(Debug, Clone, Copy)]
pub struct ProblemWidths {
    /// Characters of the item's name.
    pub name: usize,
    /// Characters of a message.
    pub message: usize,
}

/// Formats the problems of an item below its name; empty without problems.
pub fn format_problems(item: &Value, widths: ProblemWidths) -> String {
    let problems = field_items(item, "problems").iter().map(|problem| {
        let place = field_line(problem, "place", 100);
        let message = field_line(problem, "message", widths.message);
        let fix = field_line(problem, "fix", 300);
        let fix = if fix.is_empty() { fix } else { format!("\n    help: {fix}") };
        format!("  {place}: {message}{fix}")
    });
    let problems: Vec<_> = problems.collect();
    if problems.is_empty() {
        return String::new();
    }
    format!("\n\n{}:\n{}", field_line(item, "name", widths.name), problems.join("\n"))
}
