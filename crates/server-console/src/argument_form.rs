//! A form for the arguments of a tool, made from its schema, and the arguments that come back from it.
//!
//! Strings, numbers, truth values, choices and objects of them have fields of their own. Everything else is written as
//! JSON. An empty field is a property that is left out.

use serde_json::Value;
use tool::{Json, JsonLimits};

use crate::form_post::FormFields;
use crate::html::{Element, element, text_element};

/// Maximum number of fields; the arguments as JSON have no such limit.
const MAX_FIELDS: usize = 60;
/// Maximum depth of nested objects with fields of their own.
const MAX_DEPTH: usize = 3;
/// Maximum number of references that lead from a schema to the one that counts.
const MAX_REFERENCES: usize = 8;
/// Maximum number of values of a choice.
const MAX_CHOICES: usize = 200;

/// The form of one tool.
#[derive(Debug)]
pub(crate) struct ArgumentForm {
    properties: Vec<ArgumentField>,
    /// Whether every property has a field.
    pub(crate) is_complete: bool,
}

/// One property.
#[derive(Debug)]
struct ArgumentField {
    name: String,
    /// Name of the form's field: the path of the property.
    field_name: String,
    description: String,
    default_text: String,
    is_required: bool,
    kind: FieldKind,
}

#[derive(Debug)]
enum FieldKind {
    Text,
    Number,
    /// Values as JSON text.
    Choice(Vec<String>),
    /// Any value, as JSON text; with the name of its type.
    Json(String),
    Group(Vec<ArgumentField>),
}

/// Error in the text of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    field_name: String,
    /// The path of the property, and what is expected.
    pub(crate) message: String,
}

impl FieldError {
    /// An error of the field of this name.
    pub(crate) fn new(field_name: &str, why: &str) -> Self {
        Self { field_name: field_name.to_owned(), message: format!("{field_name}: {why}") }
    }
}

impl ArgumentForm {
    /// Makes the form of a schema.
    pub(crate) fn from_schema(schema: &Value) -> Self {
        let mut reader = SchemaReader { root: schema, field_count: 0, is_complete: true };
        let properties = reader.read_properties(schema, "", 0);
        Self { properties, is_complete: reader.is_complete }
    }

    /// Whether there is any property.
    pub(crate) fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    /// Renders the fields, with what was typed if the form comes back.
    pub(crate) fn render(&self, typed: Option<&FormFields>, errors: &[FieldError]) -> Vec<Element> {
        self.properties.iter().map(|field| field.render(typed, errors)).collect()
    }

    /// Returns the arguments as JSON text.
    ///
    /// # Errors
    /// All fields whose text is not a value of their type.
    pub(crate) fn read_arguments(&self, typed: &FormFields) -> Result<String, Vec<FieldError>> {
        let mut errors = Vec::new();
        let members = read_members(&self.properties, typed, &mut errors);
        if errors.is_empty() { Ok(format!("{{{}}}", members.join(","))) } else { Err(errors) }
    }
}

/// Reads a schema into fields.
struct SchemaReader<'a> {
    root: &'a Value,
    field_count: usize,
    is_complete: bool,
}

impl<'a> SchemaReader<'a> {
    fn read_properties(
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
    fn effective_schema(&self, schema: &'a Value) -> &'a Value {
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
            Some("string") => FieldKind::Text,
            Some("number" | "integer") => FieldKind::Number,
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
fn choice_values(schema: &Value) -> Option<Vec<String>> {
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
fn single_type(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(name) => Some(name),
        Value::Array(names) => {
            let mut others = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            others.next().filter(|_| others.next().is_none())
        }
        _ => None,
    }
}

/// Returns JSON text without invisible characters.
fn visible_json(value: &Value) -> String {
    let text = value.to_string();
    json::escape_invisible_as_json(&text).unwrap_or(text)
}

impl FieldKind {
    /// Returns the text of a value in a field of this kind. A text with invisible characters is left out: nobody would
    /// see what the form sends.
    fn text_of(&self, value: &Value) -> String {
        match (self, value) {
            (Self::Group(_), _) | (_, Value::Null) => String::new(),
            (Self::Text, Value::String(text)) => {
                let is_visible = json::escape_invisible_text(text).is_none();
                if is_visible { text.clone() } else { String::new() }
            }
            _ => visible_json(value),
        }
    }

    /// Returns the JSON text of what was typed.
    fn read_value(&self, typed: &str) -> Result<String, String> {
        match self {
            Self::Text => Ok(Json::encode(&typed.replace("\r\n", "\n")).as_str().to_owned()),
            Self::Number => {
                let text = typed.trim();
                let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
                    && Json::parse(text.to_owned(), JsonLimits::DEFINITION).is_ok();
                if is_number { Ok(text.to_owned()) } else { Err("expected a number".to_owned()) }
            }
            Self::Choice(values) => {
                let is_known = values.iter().any(|value| value == typed);
                if is_known {
                    Ok(typed.to_owned())
                } else {
                    Err("choose one of the values".to_owned())
                }
            }
            Self::Json(_) | Self::Group(_) => {
                let parsed = Json::parse(typed.trim().to_owned(), JsonLimits::DEFINITION);
                parsed
                    .map(|json| json.as_str().to_owned())
                    .map_err(|error| format!("expected JSON: {error}"))
            }
        }
    }
}

/// Returns the members of the properties that were filled in. A required object is there even if it is empty.
fn read_members(
    fields: &[ArgumentField],
    typed: &FormFields,
    errors: &mut Vec<FieldError>,
) -> Vec<String> {
    let mut members = Vec::new();
    for field in fields {
        let value = if let FieldKind::Group(inner) = &field.kind {
            let inner = read_members(inner, typed, errors);
            (field.is_required || !inner.is_empty()).then(|| format!("{{{}}}", inner.join(",")))
        } else {
            let text = typed.get(&field.field_name);
            if text.is_empty() { None } else { field.read_text(text, errors) }
        };
        members
            .extend(value.map(|value| format!("{}:{value}", Json::encode(&field.name).as_str())));
    }
    members
}

impl ArgumentField {
    fn read_text(&self, text: &str, errors: &mut Vec<FieldError>) -> Option<String> {
        match self.kind.read_value(text) {
            Ok(value) => Some(value),
            Err(why) => {
                errors.push(FieldError::new(&self.field_name, &why));
                None
            }
        }
    }

    fn render(&self, typed: Option<&FormFields>, errors: &[FieldError]) -> Element {
        if let FieldKind::Group(inner) = &self.kind {
            return self.render_group(inner, typed, errors);
        }
        let text = typed.map_or(self.default_text.as_str(), |typed| typed.get(&self.field_name));
        let error = errors.iter().find(|error| error.field_name == self.field_name);
        let label = text_element("label", &self.label()).attr("for", self.id());
        let mut input =
            self.input(text).attr("id", self.id()).attr("name", self.field_name.clone());
        if self.hint().is_some() || error.is_some() {
            input = input.attr("aria-describedby", format!("{}-hint", self.id()));
        }
        let error_text = error.map(|error| {
            text_element("p", &error.message).class("field-error").attr("role", "alert")
        });
        let has_hint = self.hint().is_some() || error.is_some();
        let hint = has_hint.then(|| {
            let hint = element("div").attr("id", format!("{}-hint", self.id()));
            hint.children(self.hint()).children(error_text)
        });
        let input = if error.is_some() { input.attr("aria-invalid", "true") } else { input };
        element("div").class("field").child(label).children(hint).child(input)
    }

    /// Renders an object. An optional one is closed as long as nothing in it was filled in.
    fn render_group(
        &self,
        inner: &[Self],
        typed: Option<&FormFields>,
        errors: &[FieldError],
    ) -> Element {
        let fields = inner.iter().map(|field| field.render(typed, errors));
        if self.is_required {
            let legend = text_element("legend", &self.label());
            return element("fieldset").child(legend).children(self.hint()).children(fields);
        }
        let is_open = inner.iter().any(|field| field.is_filled(typed));
        let summary = text_element("summary", &self.label());
        let group = element("details").class("group").flag("open", is_open).child(summary);
        group.children(self.hint()).children(fields)
    }

    /// Whether the field, or one in it, has a text.
    fn is_filled(&self, typed: Option<&FormFields>) -> bool {
        match &self.kind {
            FieldKind::Group(inner) => inner.iter().any(|field| field.is_filled(typed)),
            _ => typed.is_some_and(|typed| !typed.get(&self.field_name).is_empty()),
        }
    }

    fn input(&self, text: &str) -> Element {
        match &self.kind {
            FieldKind::Choice(values) => {
                let option = |value: &String| {
                    let shown: Option<String> = serde_json::from_str(value).ok();
                    let shown = shown.as_ref().unwrap_or(value);
                    text_element("option", shown)
                        .attr("value", value.clone())
                        .flag("selected", value == text)
                };
                let none = text_element("option", "Left out").attr("value", "");
                element("select").child(none).children(values.iter().map(option))
            }
            FieldKind::Number => {
                let input = element("input").attr("type", "text").attr("inputmode", "decimal");
                input.attr("autocomplete", "off").attr("value", text.to_owned())
            }
            FieldKind::Text | FieldKind::Json(_) | FieldKind::Group(_) => {
                let area = element("textarea").attr("rows", "1").attr("spellcheck", "false");
                area.text(text)
            }
        }
    }

    fn label(&self) -> String {
        let note = match &self.kind {
            FieldKind::Json(name) => format!(" ({name}, as JSON)"),
            FieldKind::Number => " (number)".to_owned(),
            FieldKind::Text | FieldKind::Choice(_) | FieldKind::Group(_) => String::new(),
        };
        let required = if self.is_required { ", required" } else { "" };
        format!("{}{note}{required}", self.name)
    }

    fn hint(&self) -> Option<Element> {
        let is_empty = self.description.is_empty();
        (!is_empty).then(|| text_element("p", &self.description).class("hint description"))
    }

    /// The id of the field's element. A path is unique; white space, which an id may not contain, is replaced.
    fn id(&self) -> String {
        let plain = |c: char| if c.is_whitespace() { '_' } else { c };
        format!("argument{}", self.field_name.chars().map(plain).collect::<String>())
    }
}

#[cfg(test)]
mod tests;
