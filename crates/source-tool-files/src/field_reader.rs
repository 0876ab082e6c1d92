//! Typed access to the fields of one entry, with errors that name the field.

use std::str::FromStr;

use tool::tool_traits::UnknownValueError;
use tool::{Json, Problem};

/// Error of one tool entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryError {
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl EntryError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    pub(super) fn with_help(mut self, fix: impl Into<String>) -> Self {
        self.help = Some(fix.into());
        self
    }
}

impl From<EntryError> for Problem {
    fn from(fault: EntryError) -> Self {
        Self { location: String::new(), message: fault.message, help: fault.help }
    }
}

pub(super) type EntryResult<T> = std::result::Result<T, EntryError>;

/// Maximum words of a list.
const MAX_LIST_WORDS: usize = 32;

/// Members of an object.
#[derive(Debug)]
pub(super) struct EntryFields(Vec<(String, Json)>);

impl EntryFields {
    /// Returns the members of `json`; empty if it is not an object.
    pub(super) fn from_object(json: &Json) -> Self {
        Self(json.members())
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// Returns the value of `key`; `null` counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        let found = self.0.iter().find(|(name, _)| name == key).map(|(_, json)| json);
        found.filter(|json| json.kind() != "null")
    }

    /// Returns the value of `key`, which may be `null`.
    pub(super) fn get_or_null(&self, key: &str) -> Option<&Json> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, json)| json)
    }

    pub(super) fn string_field(&self, key: &str) -> EntryResult<Option<String>> {
        let Some(json) = self.get(key) else { return Ok(None) };
        let text = json.decode::<String>().map_err(|_| type_error(key, json, "a text"))?;
        Ok(Some(text))
    }

    pub(super) fn bool_field(&self, key: &str) -> EntryResult<Option<bool>> {
        let Some(json) = self.get(key) else { return Ok(None) };
        let flag = json.decode::<bool>();
        flag.map(Some).map_err(|_| type_error(key, json, "true or false"))
    }

    /// Parses one keyword of a fixed set.
    pub(super) fn keyword_field<T: FromStr<Err = UnknownValueError>>(
        &self,
        key: &str,
    ) -> EntryResult<Option<T>> {
        self.string_field(key)?.map(|word| parse_keyword(key, &word)).transpose()
    }

    /// Parses a list of keywords of a fixed set, without duplicates.
    pub(super) fn keyword_list<T>(&self, key: &str) -> EntryResult<Option<Vec<T>>>
    where
        T: FromStr<Err = UnknownValueError> + PartialEq,
    {
        let Some(texts) = self.string_list(key)? else { return Ok(None) };
        let mut words = Vec::new();
        for text in texts {
            let word = parse_keyword(key, &text)?;
            if !words.contains(&word) {
                words.push(word);
            }
        }
        Ok(Some(words))
    }

    /// Returns a list of strings; a single string is a list of one.
    pub(super) fn string_list(&self, key: &str) -> EntryResult<Option<Vec<String>>> {
        let Some(json) = self.get(key) else { return Ok(None) };
        if let Ok(one) = json.decode::<String>() {
            return Ok(Some(vec![one]));
        }
        let texts =
            json.decode::<Vec<String>>().map_err(|_| type_error(key, json, "a list of strings"))?;
        if texts.len() > MAX_LIST_WORDS {
            let message =
                format!("`{key}` has {} items; the maximum is {MAX_LIST_WORDS}", texts.len());
            return Err(EntryError::new(message));
        }
        Ok(Some(texts))
    }
}

fn parse_keyword<T: FromStr<Err = UnknownValueError>>(key: &str, value: &str) -> EntryResult<T> {
    value.parse().map_err(|error: UnknownValueError| {
        EntryError::new(format!("`{key}`: unknown {} `{}`", error.field, escape_word(value)))
            .with_help(format!("use one of {}", error.allowed))
    })
}

/// Escapes a word of the file for a message, truncated to 64 characters.
pub(super) fn escape_word(word: &str) -> String {
    word.chars().take(64).collect::<String>().escape_debug().to_string()
}

pub(super) fn type_error(key: &str, found: &Json, expected: &str) -> EntryError {
    EntryError::new(format!("`{key}` is {}; expected {expected}", found.kind()))
}

/// Returns the known field that `word` most likely means: equal except for case and separators, or
/// at most two edits away.
pub(super) fn closest_field(field: &str, known_fields: &[&'static str]) -> Option<&'static str> {
    let simplify = |word: &str| {
        word.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let word = simplify(field);
    if word.len() < 4 || word.len() > 40 {
        return None;
    }
    known_fields.iter().copied().find(|known| strsim::levenshtein(&word, &simplify(known)) <= 2)
}

#[cfg(test)]
mod tests {
    use super::closest_field;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["required_permission", "destructive", "safety"];
        assert_eq!(closest_field("requiredPermision", &known), Some("required_permission"));
        assert_eq!(closest_field("Destructive", &known), Some("destructive"));
        assert_eq!(closest_field("owner", &known), None);
        assert_eq!(closest_field("examples", &known), None);
    }
}
