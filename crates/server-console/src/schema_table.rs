//! A JSON Schema as a table: one row for each property, at any depth within limits.

use serde_json::Value;

use crate::html::{Element, element, text_element};
use crate::page_layout::wide_table;

/// Maximum number of rows; the schema as JSON has the rest.
const MAX_ROWS: usize = 200;
/// Maximum depth of nested properties.
const MAX_DEPTH: usize = 6;
/// Maximum number of characters of a value, such as a default.
const MAX_VALUE_CHARS: usize = 200;
/// Keywords that restrict a value, in the order of the table.
const CONSTRAINTS: [&str; 17] = [
    "const",
    "enum",
    "default",
    "format",
    "pattern",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// Renders the properties of a schema.
pub(crate) fn schema_table(schema: &Value) -> Element {
    let mut rows = SchemaRows::default();
    rows.add_properties(schema, "", 0);
    if rows.rows.is_empty() {
        return text_element("p", "No properties are declared.").class("empty");
    }
    let titles = ["Name", "Type", "Required", "Description", "Constraints"];
    let head = titles.map(|title| text_element("th", title).attr("scope", "col"));
    let head = element("thead").child(element("tr").children(head));
    let table = element("table").child(head).child(element("tbody").children(rows.rows));
    let rest = rows.has_more.then(|| {
        text_element("p", "The table is not complete; the schema as JSON has the rest.")
            .class("hint")
    });
    element("div").child(wide_table("Properties", table)).children(rest)
}

#[derive(Default)]
struct SchemaRows {
    rows: Vec<Element>,
    has_more: bool,
}

impl SchemaRows {
    fn add_properties(&mut self, schema: &Value, prefix: &str, depth: usize) {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|all| all.iter().any(|value| value == name));
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if self.rows.len() >= MAX_ROWS || depth >= MAX_DEPTH {
                self.has_more = true;
                return;
            }
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            self.rows.push(property_row(&path, property, is_required(name)));
            self.add_properties(property, &path, depth + 1);
            if let Some(items) = property.get("items") {
                self.add_properties(items, &format!("{path}[]"), depth + 1);
            }
        }
    }
}

fn property_row(path: &str, property: &Value, is_required: bool) -> Element {
    let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
    let constraints = CONSTRAINTS.iter().filter_map(|name| {
        let value = property.get(*name)?;
        Some(text_element("li", &format!("{name}: {}", short_value(value))))
    });
    let mut constraints = constraints.peekable();
    let list = constraints.peek().is_some().then(|| element("ul").children(constraints));
    element("tr")
        .child(element("th").attr("scope", "row").child(text_element("code", path)))
        .child(text_element("td", &type_name(property)))
        .child(text_element("td", if is_required { "yes" } else { "no" }))
        .child(text_element("td", description).class("description"))
        .child(element("td").children(list))
}

/// Names the type: that of the schema, of its elements, or of its alternatives.
fn type_name(property: &Value) -> String {
    let of_items = |items: &Value| format!("array of {}", type_name(items));
    match property.get("type") {
        Some(Value::String(kind)) if kind == "array" => {
            property.get("items").map_or_else(|| kind.clone(), of_items)
        }
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => ["$ref", "anyOf", "oneOf", "allOf"]
            .into_iter()
            .find(|keyword| property.get(keyword).is_some())
            .map_or_else(|| "any".to_owned(), |keyword| format!("see {keyword}")),
    }
}

fn short_value(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{MAX_ROWS, schema_table};

    #[test]
    fn nested_properties_have_paths_types_and_constraints() {
        let table = schema_table(&json!({
            "type": "object", "required": ["folder"],
            "properties": {
                "folder": {"type": "string", "description": "Where.", "pattern": "^a"},
                "options": {"type": "object", "properties": {"deep": {"type": ["string", "null"]}}},
                "rows": {"type": "array", "items": {"type": "object", "properties": {
                    "n": {"type": "integer", "minimum": 1, "enum": [1, 2]}}}},
                "other": {"anyOf": []},
            },
        }));
        let html = table.render_document();
        for part in [
            "<code>folder</code></th><td>string</td><td>yes</td><td class=\"description\">Where.</td>",
            "<li>pattern: ^a</li>",
            "<code>options.deep</code></th><td>string or null</td><td>no</td>",
            "<code>rows</code></th><td>array of object</td>",
            "<code>rows[].n</code></th><td>integer</td>",
            "<li>enum: [1,2]</li><li>minimum: 1</li>",
            "<td>see anyOf</td>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }

    #[test]
    fn a_large_or_deep_schema_makes_a_small_table() {
        let many: serde_json::Map<_, _> =
            (0..10_000).map(|i| (format!("p{i}"), json!({"type": "string"}))).collect();
        let html = schema_table(&json!({"properties": many})).render_document();
        assert_eq!(html.matches("<tr>").count(), MAX_ROWS + 1);
        assert!(html.contains("not complete"));
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "array", "items": {"properties": {"a": deep}}});
        }
        assert!(schema_table(&json!({"properties": {"a": deep}})).render_document().len() < 5_000);
        assert!(schema_table(&json!({})).render_document().contains("No properties"));
    }
}
