//! Texts of a JSON Schema that search reads: names, descriptions and values of parameters.

use serde_json::Value;

/// Maximum depth to which nested parameters are read.
const MAX_DEPTH: usize = 6;
/// Maximum number of schema nodes that are read.
const MAX_NODES: usize = 512;

/// Receives the texts of a schema.
pub(crate) trait SchemaVisitor {
    /// Receives the name of a parameter at a depth; 0 for the tool's own parameters.
    fn visit_name(&mut self, name: &str, depth: usize);
    /// Receives a description, a title or an allowed value.
    fn visit_text(&mut self, text: &str);
}

/// Visits the parameters of an input schema, up to a bounded depth and number.
pub(crate) fn visit_schema(schema: &Value, visitor: &mut impl SchemaVisitor) {
    let mut left = MAX_NODES;
    visit_node(schema, 0, &mut left, visitor);
}

fn visit_node(schema: &Value, depth: usize, left: &mut usize, visitor: &mut impl SchemaVisitor) {
    if depth > MAX_DEPTH || *left == 0 {
        return;
    }
    *left -= 1;
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            visitor.visit_name(name, depth);
            if let Some(text) = property.get("description").and_then(Value::as_str) {
                visitor.visit_text(text);
            }
            visit_node(property, depth + 1, left, visitor);
        }
    }
    for value in schema.get("enum").and_then(Value::as_array).into_iter().flatten() {
        if let Some(text) = value.as_str() {
            visitor.visit_text(text);
        }
    }
    if let Some(text) = schema.get("const").and_then(Value::as_str) {
        visitor.visit_text(text);
    }
    if let Some(inner) = schema.get("items") {
        visit_node(inner, depth + 1, left, visitor);
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        for inner in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
            visit_node(inner, depth + 1, left, visitor);
        }
    }
    for key in ["$defs", "definitions"] {
        for inner in schema.get(key).and_then(Value::as_object).into_iter().flatten() {
            visit_node(inner.1, depth + 1, left, visitor);
        }
    }
}
