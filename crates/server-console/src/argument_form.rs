//! A form for the arguments of a tool, made from its schema, and the arguments that come back from it.
//!
//! Strings, numbers, truth values, choices, and objects and lists of them have fields of their own. Everything else is
//! written as JSON. An empty field is a property that is left out.

mod list_fields;
mod schema_reader;

use serde_json::Value;
use tool::{Json, JsonLimits};

use schema_reader::SchemaReader;

use crate::form_post::FormFields;
use crate::html::{Element, element, text_element};

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
    /// The content of a file in Base64, which the script reads from a file.
    File,
    /// A list of texts or numbers, one a line.
    Lines(Box<Self>),
    /// A list of values that are checked; as JSON text.
    Options(Vec<String>),
    /// A list of objects: the first entries.
    Entries(Vec<ArgumentField>),
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
        let mut reader = SchemaReader::new(schema);
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
            (Self::Group(_) | Self::Entries(_) | Self::Options(_), _) | (_, Value::Null) => {
                String::new()
            }
            (Self::Lines(item), Value::Array(values)) => item.lines_of(values),
            (Self::Lines(_), _) => String::new(),
            (Self::Text | Self::File, Value::String(text)) => {
                let is_visible = json::escape_invisible_text(text).is_none();
                if is_visible { text.clone() } else { String::new() }
            }
            _ => visible_json(value),
        }
    }

    /// Returns the JSON text of what was typed.
    fn read_value(&self, typed: &str) -> Result<String, String> {
        match self {
            Self::Text | Self::File => {
                Ok(Json::encode(&typed.replace("\r\n", "\n")).as_str().to_owned())
            }
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
            Self::Lines(item) => item.read_lines(typed),
            Self::Json(_) | Self::Group(_) | Self::Entries(_) | Self::Options(_) => {
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
        let value = match &field.kind {
            FieldKind::Group(inner) => {
                let inner = read_members(inner, typed, errors);
                (field.is_required || !inner.is_empty()).then(|| format!("{{{}}}", inner.join(",")))
            }
            FieldKind::Entries(entries) => list_fields::read_entries(entries, typed, errors),
            FieldKind::Options(values) => field.read_options(values, typed, errors),
            _ => {
                let text = typed.get(&field.field_name);
                if text.is_empty() { None } else { field.read_text(text, errors) }
            }
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
        match &self.kind {
            FieldKind::Group(inner) | FieldKind::Entries(inner) => {
                return self.render_group(inner, typed, errors);
            }
            FieldKind::Options(values) => return self.render_options(values, typed, errors),
            _ => {}
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
        let file = matches!(self.kind, FieldKind::File).then(|| self.file_input());
        element("div").class("field").child(label).children(hint).child(input).children(file)
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
            FieldKind::Group(inner) | FieldKind::Entries(inner) => {
                inner.iter().any(|field| field.is_filled(typed))
            }
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
            FieldKind::Lines(_) => {
                let area = element("textarea").attr("rows", "3").attr("spellcheck", "false");
                area.text(text)
            }
            _ => {
                let area = element("textarea").attr("rows", "1").attr("spellcheck", "false");
                area.text(text)
            }
        }
    }

    fn label(&self) -> String {
        let note = match &self.kind {
            FieldKind::Json(name) => format!(" ({name}, as JSON)"),
            FieldKind::Number => " (number)".to_owned(),
            FieldKind::File => " (content in Base64)".to_owned(),
            FieldKind::Lines(_) => " (list, one a line)".to_owned(),
            FieldKind::Entries(_) => " (list)".to_owned(),
            FieldKind::Text
            | FieldKind::Choice(_)
            | FieldKind::Group(_)
            | FieldKind::Options(_) => String::new(),
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
