//! The id of a JSON-RPC request.

use std::fmt;

use json::{JsonCursor, JsonRef};
use tool::Json;

/// Request id: a string or an integer. `1` and `"1"` are different ids; `"a"` and its escaped form
/// are the same.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(IdValue);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum IdValue {
    Number(i64),
    /// Canonical JSON, with quotes.
    String(Box<str>),
}

impl RequestId {
    /// Creates the id of a request that Toolkeep sends.
    pub const fn from_number(number: i64) -> Self {
        Self(IdValue::Number(number))
    }

    /// Parses an id, or returns `None` if the value is neither a string nor a 64-bit integer.
    pub fn from_json(value: &Json) -> Option<Self> {
        Self::from_json_ref(JsonCursor::from_json(value).next_value())
    }

    /// Parses an id from a part of a larger text.
    pub(crate) fn from_json_ref(value: JsonRef<'_>) -> Option<Self> {
        match value.kind() {
            "string" => {
                Some(Self(IdValue::String(Json::encode(&value.string_value()?).as_str().into())))
            }
            "number" => value.as_str().trim().parse().ok().map(Self::from_number),
            _ => None,
        }
    }

    /// Returns the id as a number. A string of digits counts, because some servers return numeric
    /// ids as strings.
    pub fn as_number(&self) -> Option<i64> {
        match &self.0 {
            IdValue::Number(number) => Some(*number),
            IdValue::String(text) => text.trim_matches('"').parse().ok(),
        }
    }

    /// Writes the id as JSON, as [`Display`](fmt::Display) does.
    pub(crate) fn write_json(&self, text: &mut Vec<u8>) {
        match &self.0 {
            IdValue::Number(number) => {
                text.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
            }
            IdValue::String(string) => text.extend_from_slice(string.as_bytes()),
        }
    }
}

/// Formats the id as JSON.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            IdValue::Number(number) => number.fmt(f),
            IdValue::String(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use tool::{Json, JsonLimits};

    use super::RequestId;

    fn id(text: &str) -> Option<RequestId> {
        RequestId::from_json(&Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap())
    }

    #[test]
    fn a_text_and_a_number_are_two() {
        assert_eq!(id("7").unwrap(), RequestId::from_number(7));
        assert_ne!(id("7"), id(r#""7""#));
        assert_eq!(id(r#""\u0061""#), id(r#""a""#));
        assert_eq!(id(r#""7""#).unwrap().as_number(), Some(7));
        assert_eq!(id(r#""a\"b""#).unwrap().to_string(), r#""a\"b""#);
        for bad in ["null", "1.5", "1e3", "[]", "{}", "true", "99999999999999999999"] {
            assert_eq!(id(bad), None, "{bad}");
        }
    }
}
