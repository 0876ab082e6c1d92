//! Collected errors of a manifest, and the readers for single fields.

use serde_json::{Map, Value};

/// Maximum number of reported errors.
const MAX_ERRORS: usize = 50;

/// Errors collected so far.
#[derive(Debug, Default)]
pub(crate) struct FieldErrors {
    messages: Vec<String>,
    /// Prefix of each error that identifies the tool.
    pub(crate) prefix: String,
}

impl FieldErrors {
    pub(crate) fn push_error(&mut self, message: impl AsRef<str>) {
        if self.messages.len() < MAX_ERRORS {
            self.messages.push(format!("{}{}", self.prefix, message.as_ref()));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn join_errors(self) -> String {
        self.messages.join("; ")
    }

    pub(crate) fn require_field(&mut self, fields: &Map<String, Value>, field: &str) {
        if fields.get(field).is_none_or(Value::is_null) {
            self.push_error(format!("Missing required field: {field}"));
        }
    }

    pub(crate) fn read_string(
        &mut self,
        fields: &Map<String, Value>,
        field: &str,
    ) -> Option<String> {
        match fields.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                self.push_error(format!("'{field}' must be a text"));
                None
            }
        }
    }

    pub(crate) fn read_bool(
        &mut self,
        fields: &Map<String, Value>,
        field: &str,
        default: bool,
    ) -> bool {
        match fields.get(field) {
            None | Some(Value::Null) => default,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.push_error(format!("'{field}' must be true or false"));
                default
            }
        }
    }

    pub(crate) fn read_positive_integer(
        &mut self,
        fields: &Map<String, Value>,
        field: &str,
    ) -> Option<u64> {
        let value = fields.get(field).filter(|value| !value.is_null())?;
        let number = value.as_u64().filter(|number| *number > 0);
        if number.is_none() {
            self.push_error(format!("'{field}' must be a whole number above 0"));
        }
        number
    }

    pub(crate) fn read_object<'a>(
        &mut self,
        fields: &'a Map<String, Value>,
        field: &str,
    ) -> Option<&'a Map<String, Value>> {
        match fields.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::Object(map)) => Some(map),
            Some(_) => {
                self.push_error(format!("'{field}' must be an object"));
                None
            }
        }
    }

    pub(crate) fn read_strings(&mut self, fields: &Map<String, Value>, field: &str) -> Vec<String> {
        match fields.get(field) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => {
                let texts: Option<Vec<String>> =
                    items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                texts.unwrap_or_else(|| {
                    self.push_error(format!("'{field}' must be a list of texts"));
                    Vec::new()
                })
            }
            Some(_) => {
                self.push_error(format!("'{field}' must be a list"));
                Vec::new()
            }
        }
    }

    /// Parses each word of a list as a member of a fixed set.
    pub(crate) fn read_parsed_list<T: std::str::FromStr>(
        &mut self,
        fields: &Map<String, Value>,
        field: &str,
    ) -> Option<Vec<T>>
    where
        T::Err: std::fmt::Display,
    {
        fields.get(field).filter(|value| !value.is_null())?;
        let read = |faults: &mut Self, word: &String| match word.parse() {
            Ok(word) => Some(word),
            Err(error) => {
                faults.push_error(format!("'{field}': {error}"));
                None
            }
        };
        let words = self.read_strings(fields, field);
        Some(words.iter().filter_map(|word| read(self, word)).collect())
    }

    /// Parses a word as a member of a fixed set.
    pub(crate) fn read_parsed<T: std::str::FromStr>(
        &mut self,
        fields: &Map<String, Value>,
        field: &str,
    ) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        let text = self.read_string(fields, field)?;
        match text.parse() {
            Ok(word) => Some(word),
            Err(error) => {
                self.push_error(format!("'{field}': {error}"));
                None
            }
        }
    }
}
