//! Fields of lists and files: lines of a text, checked values, the first entries of a list of objects,
//! and the content of a file.

use serde_json::Value;

use super::schema_reader::{MAX_DEPTH, MAX_FIELDS, SchemaReader, choice_values, single_type};
use super::{ArgumentField, FieldError, FieldKind, read_members};
use crate::form_post::FormFields;
use crate::html::{Element, element, text_element};

/// Maximum number of values that are checked one by one; more are written as lines.
const MAX_OPTIONS: usize = 20;
/// Number of entries of a list of objects that have fields; the arguments as JSON have no such limit.
const MAX_ENTRIES: usize = 3;

/// Whether a string is the content of a file (JSON Schema 2020-12, section 8.3, and OpenAPI).
pub(super) fn is_file_content(schema: &Value) -> bool {
    let is = |key: &str, value: &str| schema.get(key).is_some_and(|found| found == value);
    is("contentEncoding", "base64") || is("format", "byte")
}

impl<'a> SchemaReader<'a> {
    /// Returns the field of a list, by the schema of its items.
    pub(super) fn read_list(&mut self, schema: &'a Value, path: &str, depth: usize) -> FieldKind {
        let as_json = || FieldKind::Json("array".to_owned());
        let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
            return as_json();
        };
        let items = self.effective_schema(items);
        if let Some(values) = choice_values(items).filter(|values| values.len() <= MAX_OPTIONS) {
            return FieldKind::Options(values);
        }
        match single_type(items) {
            Some("string") => FieldKind::Lines(Box::new(FieldKind::Text)),
            Some("number" | "integer") => FieldKind::Lines(Box::new(FieldKind::Number)),
            Some("object") if items.get("properties").is_some() && depth + 1 < MAX_DEPTH => {
                FieldKind::Entries(self.read_entries(items, path, depth))
            }
            _ => as_json(),
        }
    }

    fn read_entries(&mut self, items: &'a Value, path: &str, depth: usize) -> Vec<ArgumentField> {
        let mut entries = Vec::new();
        let before = self.field_count;
        // A longer list is written as JSON.
        self.is_complete = false;
        for number in 0..MAX_ENTRIES {
            let fields_of_one = (self.field_count - before) / number.max(1);
            if number > 0 && self.field_count + fields_of_one > MAX_FIELDS {
                break;
            }
            let field_name = json::json_pointer::child_pointer(path, &number.to_string());
            let inner = self.read_properties(items, &field_name, depth + 1);
            entries.push(ArgumentField {
                name: format!("Entry {}", number + 1),
                field_name,
                description: String::new(),
                default_text: String::new(),
                is_required: false,
                kind: FieldKind::Group(inner),
            });
        }
        entries
    }
}

impl FieldKind {
    /// Returns the lines of a list that has only values of this kind, one line each.
    pub(super) fn lines_of(&self, values: &[Value]) -> String {
        let lines: Vec<_> = values.iter().map(|value| self.text_of(value)).collect();
        let is_plain = lines.iter().all(|line| !line.is_empty() && !line.contains(['\n', '\r']));
        if is_plain { lines.join("\n") } else { String::new() }
    }

    /// Returns the JSON text of a list with one value of this kind a line.
    pub(super) fn read_lines(&self, typed: &str) -> Result<String, String> {
        let lines = typed.lines().filter(|line| !line.trim().is_empty());
        let values = lines.enumerate().map(|(index, line)| {
            self.read_value(line).map_err(|why| format!("line {}: {why}", index + 1))
        });
        Ok(format!("[{}]", values.collect::<Result<Vec<_>, _>>()?.join(",")))
    }
}

/// Returns the JSON text of the entries that were filled in.
pub(super) fn read_entries(
    entries: &[ArgumentField],
    typed: &FormFields,
    errors: &mut Vec<FieldError>,
) -> Option<String> {
    let filled = entries.iter().filter(|entry| entry.is_filled(Some(typed)));
    let objects: Vec<_> = filled
        .filter_map(|entry| {
            let FieldKind::Group(inner) = &entry.kind else { return None };
            Some(format!("{{{}}}", read_members(inner, typed, errors).join(",")))
        })
        .collect();
    (!objects.is_empty()).then(|| format!("[{}]", objects.join(",")))
}

impl ArgumentField {
    /// Returns the JSON text of the checked values.
    pub(super) fn read_options(
        &self,
        values: &[String],
        typed: &FormFields,
        errors: &mut Vec<FieldError>,
    ) -> Option<String> {
        let checked: Vec<_> = typed.get_all(&self.field_name).collect();
        if checked.iter().any(|value| !values.iter().any(|known| known == value)) {
            errors.push(FieldError::new(&self.field_name, "choose some of the values"));
            return None;
        }
        (!checked.is_empty()).then(|| format!("[{}]", checked.join(",")))
    }

    pub(super) fn render_options(
        &self,
        values: &[String],
        typed: Option<&FormFields>,
        errors: &[FieldError],
    ) -> Element {
        let is_checked = |value: &str| {
            typed.is_some_and(|typed| typed.get_all(&self.field_name).any(|it| it == value))
        };
        let option = |value: &String| {
            let shown: Option<String> = serde_json::from_str(value).ok();
            let input = element("input")
                .attr("type", "checkbox")
                .attr("name", self.field_name.clone())
                .attr("value", value.clone())
                .flag("checked", is_checked(value));
            let label = element("label").class("check").child(input).text(" ");
            element("p").child(label.text(shown.as_ref().unwrap_or(value)))
        };
        let error = errors.iter().find(|error| error.field_name == self.field_name);
        let error = error.map(|error| text_element("p", &error.message).class("field-error"));
        element("fieldset")
            .class("checks")
            .child(text_element("legend", &self.label()))
            .children(self.hint())
            .children(error)
            .children(values.iter().map(option))
    }

    /// A choice of a file, which the script shows and reads into the field.
    pub(super) fn file_input(&self) -> Element {
        element("input")
            .attr("type", "file")
            .attr("data-file-of", self.id())
            .attr("aria-label", format!("File for {}", self.name))
            .flag("hidden", true)
    }
}
