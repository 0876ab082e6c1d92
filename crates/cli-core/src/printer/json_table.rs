//! Formatting of any JSON result as a table: one row per list item, one column per scalar.
//!
//! It is independent of commands: the fields of the JSON are the columns.

use serde_json::Value;

use super::{align_columns, sanitize_line};

/// Maximum width of a table cell, in characters.
const MAX_CELL_CHARS: usize = 48;
/// Maximum width of a value on a line of its own.
const MAX_VALUE_CHARS: usize = 400;

/// Formats the first list of a result as rows, followed by its other fields; a result without a
/// list has one row per field.
pub(super) fn format_json_table(value: &Value) -> String {
    let Value::Object(fields) = value else { return format_rows(value) };
    let Some((name, list)) = fields.iter().find(|(_, field)| is_object_list(field)) else {
        return format_pairs(value);
    };
    let rest = fields.iter().filter(|(key, _)| *key != name);
    let rest = rest.flat_map(|(key, field)| flatten_field(key, field, MAX_CELL_CHARS));
    let rest: Vec<_> = rest.map(|(key, text)| format!("{key}: {text}")).collect();
    let rows = if list.as_array().is_some_and(Vec::is_empty) {
        format!("{name}: none")
    } else {
        format_rows(list)
    };
    if rest.is_empty() { rows } else { format!("{rows}\n\n{}", rest.join("\n")) }
}

fn is_object_list(field: &Value) -> bool {
    field.as_array().is_some_and(|list| list.iter().all(Value::is_object))
}

/// Formats an object as one row per scalar.
pub(super) fn format_pairs(value: &Value) -> String {
    let fields = value.as_object().into_iter().flatten();
    let cells: Vec<_> =
        fields.flat_map(|(key, field)| flatten_field(key, field, MAX_VALUE_CHARS)).collect();
    let cells: Vec<_> = cells.into_iter().map(|(key, text)| [key, text]).collect();
    align_columns(&cells.iter().map(<[String; 2]>::as_slice).collect::<Vec<_>>())
}

fn format_rows(list: &Value) -> String {
    let things = list.as_array().map_or(std::slice::from_ref(list), Vec::as_slice);
    let things = things.iter().map(|thing| match thing {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, field)| flatten_field(key, field, MAX_CELL_CHARS))
            .collect(),
        other => flatten_field("value", other, MAX_CELL_CHARS),
    });
    let things: Vec<Vec<(String, String)>> = things.collect();
    let mut columns: Vec<&str> = Vec::new();
    for (key, _) in things.iter().flatten() {
        if !columns.contains(&key.as_str()) {
            columns.push(key);
        }
    }
    let cell = |thing: &[(String, String)], column: &str| {
        thing.iter().find(|(key, _)| key == column).map_or_else(String::new, |(_, t)| t.clone())
    };
    let head: Vec<_> = columns.iter().map(|column| column.to_uppercase()).collect();
    let row = |thing: &Vec<_>| columns.iter().map(|column| cell(thing, column)).collect();
    let body: Vec<Vec<String>> = things.iter().map(row).collect();
    let all: Vec<_> = std::iter::once(&head).chain(&body).map(Vec::as_slice).collect();
    align_columns(&all)
}

/// The scalars of a field, including those one level down; empty and deeper values are omitted.
fn flatten_field(key: &str, field: &Value, width: usize) -> Vec<(String, String)> {
    let plain = |key: String, field: &Value| format_scalar(field, width).map(|text| (key, text));
    match field {
        Value::Object(fields) => {
            let key = |inner: &String| sanitize_line(&format!("{key}.{inner}"), MAX_CELL_CHARS);
            fields.iter().filter_map(|(inner, field)| plain(key(inner), field)).collect()
        }
        field => plain(sanitize_line(key, MAX_CELL_CHARS), field).into_iter().collect(),
    }
}

fn format_scalar(field: &Value, width: usize) -> Option<String> {
    let text = match field {
        Value::Null | Value::Object(_) => return None,
        Value::String(text) => sanitize_line(text, width),
        Value::Array(list) => {
            let words: Option<Vec<_>> = list.iter().map(format_list_item).collect();
            sanitize_line(&words?.join(","), width)
        }
        Value::Bool(_) | Value::Number(_) => field.to_string(),
    };
    (!text.is_empty()).then_some(text)
}

/// Formats a list item that is a scalar.
fn format_list_item(item: &Value) -> Option<String> {
    match item {
        Value::Array(_) | Value::Object(_) => None,
        Value::String(text) => Some(sanitize_line(text, MAX_VALUE_CHARS)),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::format_json_table;

    #[test]
    fn the_list_of_an_answer_is_its_rows_and_the_rest_stands_below() {
        let answer = json!({ "tools": [
            { "name": "a\u{1b}[2J", "traits": { "level": "guest", "scopes": ["x", "y"] },
              "input_schema": { "properties": { "deep": {} } }, "title": null },
            { "name": "b", "tries": 2, "traits": { "level": "user", "scopes": [] } },
        ], "next_cursor": "c", "catalog": 7 });
        let expected = "\
NAME   TRAITS.LEVEL  TRAITS.SCOPES  TRIES
a\u{fffd}[2J  guest         x,y
b      user                         2

next_cursor: c
catalog: 7";
        assert_eq!(format_json_table(&answer), expected);
    }

    #[test]
    fn answers_without_rows_are_pairs_and_an_empty_list_says_so() {
        assert_eq!(
            format_json_table(&json!({ "id": "k", "agent": false })),
            "id     k\nagent  false"
        );
        assert_eq!(format_json_table(&json!({ "keys": [], "next_cursor": null })), "keys: none");
        assert_eq!(format_json_table(&json!([{ "code": "x" }])), "CODE\nx");
        assert_eq!(format_json_table(&json!("one\ntwo")), "VALUE\none");
        assert_eq!(format_json_table(&json!({})), "");
    }
}
