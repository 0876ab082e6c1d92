//! Reads the schema of a tool into the fields of its form.

use serde_json::Value;

use super::list_fields::is_file_content;
use super::{ArgumentField, FieldKind, visible_json};

/// Maximum number of fields; the arguments as JSON have no such limit.
pub(super) const MAX_FIELDS: usize = 60;
/// Maximum depth of nested objects with fields of their own.
pub(super) const MAX_DEPTH: usize = 3;
/// Maximum number of references that lead from a schema to the one that counts.
const MAX_REFERENCES: usize = 8;
/// Maximum number of values of a choice.
const MAX_CHOICES: usize = 200;

/// Reads a schema into fields.
pub(super) struct SchemaReader<'a> {
    root: &'a Value,
    pub(super) field_count: usize,
    pub(super) is_complete: bool,
}

impl<'a> SchemaReader<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, field_count: 0, is_complete: true }
    }

    pub(super) fn read_properties(
        &mut self,
        schema: &'a Value,
        path: &str,
        depth: usize,
    ) -> Vec<ArgumentField> {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|all| all.iter().any(|value| value == name));
        let mut fields = Vec::new();
        for (name, property) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            if self.field_count >= MAX_FIELDS {
                self.is_complete = false;
                break;
            }
            self.field_count += 1;
            let effective = self.effective_schema(property);
            let field_name = json::json_pointer::child_pointer(path, name);
            let text = |key: &str| property.get(key).or_else(|| effective.get(key));
            let kind = self.read_kind(effective, &field_name, depth);
            fields.push(ArgumentField {
                name: name.clone(),
                description: text("description")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
                default_text: text("default").map_or_else(String::new, |value| kind.text_of(value)),
                is_required: is_required(name),
                field_name,
                kind,
            });
        }
        fields
    }

    /// Follows local references, and alternatives of which all but one are `null`.
    pub(super) fn effective_schema(&self, schema: &'a Value) -> &'a Value {
        let mut current = schema;
        for _ in 0..MAX_REFERENCES {
            let reference = current.get("$ref").and_then(Value::as_str);
            let target = reference.and_then(|path| self.root.pointer(path.strip_prefix('#')?));
            let next = target.or_else(|| single_alternative(current));
            let Some(next) = next else { break };
            current = next;
        }
        current
    }

    fn read_kind(&mut self, schema: &'a Value, path: &str, depth: usize) -> FieldKind {
        if let Some(values) = choice_values(schema) {
            return FieldKind::Choice(values);
        }
        match single_type(schema) {
            Some("string") if is_file_content(schema) => FieldKind::File,
            Some("string") => FieldKind::Text,
            Some("number" | "integer") => FieldKind::Number,
            Some("array") => self.read_list(schema, path, depth),
            Some("boolean") => FieldKind::Choice(vec!["true".to_owned(), "false".to_owned()]),
            Some("object") if schema.get("properties").is_some() && depth + 1 < MAX_DEPTH => {
                FieldKind::Group(self.read_properties(schema, path, depth + 1))
            }
            Some(name) => FieldKind::Json(name.to_owned()),
            None => FieldKind::Json("any value".to_owned()),
        }
    }
}

/// Returns the values of a choice as JSON text: those of `enum`, or of alternatives that are one value each.
pub(super) fn choice_values(schema: &Value) -> Option<Vec<String>> {
    let values = schema.get("enum").and_then(Value::as_array);
    let values = values.map(|values| values.iter().map(visible_json).collect::<Vec<_>>());
    let values = values.or_else(|| {
        let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(key)?.as_array())?;
        alternatives.iter().map(|schema| schema.get("const").map(visible_json)).collect()
    });
    values.filter(|values| (1..=MAX_CHOICES).contains(&values.len()))
}

/// Returns the alternative that is not `null`, if there is only one.
fn single_alternative(schema: &Value) -> Option<&Value> {
    let alternatives = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array())?;
    let is_null = |schema: &&Value| schema.get("type").is_some_and(|name| name == "null");
    let mut others = alternatives.iter().filter(|schema| !is_null(schema));
    others.next().filter(|_| others.next().is_none())
}

/// Returns the type of a schema, if it has only one beside `null`.
pub(super) fn single_type(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(name) => Some(name),
        Value::Array(names) => {
            let mut others = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            others.next().filter(|_| others.next().is_none())
        }
        _ => None,
    }
}
