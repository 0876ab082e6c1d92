//! Ids of requests.

use std::fmt;

use json::{Look, Pass};
use tool::Json;

/// A request's id: a string or a whole number. `1` and `"1"` are two ids; `"a"` and its escaped form are
/// one.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(Text);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Text {
    Number(i64),
    /// Canonical JSON, quotes included.
    String(Box<str>),
}

impl Id {
    /// Of a request of ours.
    pub const fn number(number: i64) -> Self {
        Self(Text::Number(number))
    }

    /// Reads one; nothing where it is neither a string nor a whole number of 64 bits.
    pub fn read(json: &Json) -> Option<Self> {
        Self::of(Pass::over(json).value())
    }

    /// The same of a part of a text.
    pub(crate) fn of(look: Look<'_>) -> Option<Self> {
        match look.kind() {
            "string" => Some(Self(Text::String(Json::of(&look.text()?).as_str().into()))),
            "number" => look.as_str().trim().parse().ok().map(Self::number),
            _ => None,
        }
    }

    /// The number, where it is one; or where it is a text of one, as some servers write our numbers
    /// back.
    pub fn as_number(&self) -> Option<i64> {
        match &self.0 {
            Text::Number(number) => Some(*number),
            Text::String(text) => text.trim_matches('"').parse().ok(),
        }
    }
}

impl Id {
    /// Writes it as JSON, as [`Display`](fmt::Display) does.
    pub(crate) fn push(&self, text: &mut Vec<u8>) {
        match &self.0 {
            Text::Number(number) => {
                text.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
            }
            Text::String(string) => text.extend_from_slice(string.as_bytes()),
        }
    }
}

/// As JSON.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Text::Number(number) => number.fmt(f),
            Text::String(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use tool::{Json, Limits};

    use super::Id;

    fn id(text: &str) -> Option<Id> {
        Id::read(&Json::check(text.to_owned(), Limits::DOCUMENT).unwrap())
    }

    #[test]
    fn a_text_and_a_number_are_two() {
        assert_eq!(id("7").unwrap(), Id::number(7));
        assert_ne!(id("7"), id(r#""7""#));
        assert_eq!(id(r#""\u0061""#), id(r#""a""#));
        assert_eq!(id(r#""7""#).unwrap().as_number(), Some(7));
        assert_eq!(id(r#""a\"b""#).unwrap().to_string(), r#""a\"b""#);
        for bad in ["null", "1.5", "1e3", "[]", "{}", "true", "99999999999999999999"] {
            assert_eq!(id(bad), None, "{bad}");
        }
    }
}
