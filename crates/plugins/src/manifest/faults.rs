//! What is wrong with a manifest, gathered; and how single fields are read.

use serde_json::{Map, Value};

/// Most faults that are told.
const MOST: usize = 50;

/// All that is wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    told: Vec<String>,
    /// Stands before each: which tool.
    pub(crate) of: String,
}

impl Faults {
    pub(crate) fn tell(&mut self, what: impl AsRef<str>) {
        if self.told.len() < MOST {
            self.told.push(format!("{}{}", self.of, what.as_ref()));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    pub(crate) fn joined(self) -> String {
        self.told.join("; ")
    }

    pub(crate) fn required(&mut self, fields: &Map<String, Value>, field: &str) {
        if fields.get(field).is_none_or(Value::is_null) {
            self.tell(format!("Missing required field: {field}"));
        }
    }

    pub(crate) fn text(&mut self, fields: &Map<String, Value>, field: &str) -> Option<String> {
        match fields.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                self.tell(format!("'{field}' must be a text"));
                None
            }
        }
    }

    pub(crate) fn flag(&mut self, fields: &Map<String, Value>, field: &str, usual: bool) -> bool {
        match fields.get(field) {
            None | Some(Value::Null) => usual,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.tell(format!("'{field}' must be true or false"));
                usual
            }
        }
    }

    pub(crate) fn number(&mut self, fields: &Map<String, Value>, field: &str) -> Option<u64> {
        let value = fields.get(field).filter(|value| !value.is_null())?;
        let number = value.as_u64().filter(|number| *number > 0);
        if number.is_none() {
            self.tell(format!("'{field}' must be a whole number above 0"));
        }
        number
    }

    pub(crate) fn object<'a>(
        &mut self,
        fields: &'a Map<String, Value>,
        field: &str,
    ) -> Option<&'a Map<String, Value>> {
        match fields.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::Object(map)) => Some(map),
            Some(_) => {
                self.tell(format!("'{field}' must be an object"));
                None
            }
        }
    }

    pub(crate) fn texts(&mut self, fields: &Map<String, Value>, field: &str) -> Vec<String> {
        match fields.get(field) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => {
                let texts: Option<Vec<String>> =
                    items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                texts.unwrap_or_else(|| {
                    self.tell(format!("'{field}' must be a list of texts"));
                    Vec::new()
                })
            }
            Some(_) => {
                self.tell(format!("'{field}' must be a list"));
                Vec::new()
            }
        }
    }

    /// Each word of a list, read as one of a fixed set.
    pub(crate) fn words<T: std::str::FromStr>(
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
                faults.tell(format!("'{field}': {error}"));
                None
            }
        };
        let words = self.texts(fields, field);
        Some(words.iter().filter_map(|word| read(self, word)).collect())
    }

    /// One word of a fixed set.
    pub(crate) fn word<T: std::str::FromStr>(
        &mut self,
        fields: &Map<String, Value>,
        field: &str,
    ) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        let text = self.text(fields, field)?;
        match text.parse() {
            Ok(word) => Some(word),
            Err(error) => {
                self.tell(format!("'{field}': {error}"));
                None
            }
        }
    }
}
