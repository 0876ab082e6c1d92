//! Validated JSON text: bounded once on input, then read and spliced as bytes.
//!
//! All interfaces use one parser, so that none reads the same text differently: size, depth and key
//! count are bounded, duplicate keys and lone surrogates are rejected. The validated bytes are
//! stored and passed on unchanged.

mod byte_search;
mod cursor;
mod invisible_chars;
pub mod json_pointer;
mod lexer;
mod splicing;
mod validator;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

pub use cursor::{JsonCursor, JsonRef};
pub use invisible_chars::{escape_invisible_as_json, escape_invisible_text};
pub use splicing::{write_escaped, write_quoted};

/// JSON text that was validated by [`Json::parse`]. Untrusted bytes cannot become one otherwise.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(ByteString);

/// Limits of accepted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonLimits {
    /// Maximum size in bytes.
    pub max_bytes: usize,
    /// Maximum nesting of arrays and objects.
    pub max_depth: usize,
    /// Maximum number of keys and elements in total.
    pub max_nodes: usize,
}

impl JsonLimits {
    /// Limits for arguments of a call: 1 MiB, 64 levels, 100,000 keys and elements.
    pub const ARGUMENTS: Self = Self { max_bytes: 1 << 20, max_depth: 64, max_nodes: 100_000 };
    /// Limits for one tool definition: 256 KiB, 64 levels, 20,000 keys and elements.
    pub const DEFINITION: Self = Self { max_bytes: 256 << 10, max_depth: 64, max_nodes: 20_000 };
    /// Limits for a document, such as a manifest or a result: 16 MiB, 64 levels, 2,000,000 nodes.
    pub const DOCUMENT: Self = Self { max_bytes: 16 << 20, max_depth: 64, max_nodes: 2_000_000 };
    /// Maximum size of any tool's arguments in bytes: 64 MiB.
    pub const MAX_ARGUMENT_BYTES: usize = 64 << 20;

    /// Returns the limits for a tool with this argument size: at least [`JsonLimits::ARGUMENTS`], at
    /// most [`JsonLimits::MAX_ARGUMENT_BYTES`], and 100,000 keys and elements per MiB.
    #[must_use]
    pub fn for_arguments(bytes: usize) -> Self {
        let bytes = bytes.clamp(Self::ARGUMENTS.max_bytes, Self::MAX_ARGUMENT_BYTES);
        Self {
            max_bytes: bytes,
            max_nodes: bytes.div_ceil(1 << 20) * Self::ARGUMENTS.max_nodes,
            ..Self::ARGUMENTS
        }
    }

    /// Returns the limits for a message that contains the arguments at this depth, so that
    /// arguments may nest equally deep in each kind of message.
    #[must_use]
    pub const fn around_arguments(self, levels: usize) -> Self {
        Self { max_depth: Self::ARGUMENTS.max_depth + levels, ..self }
    }
}

/// Errors of parsing JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text is longer than the limit.
    #[error("the JSON text has {size} bytes; the maximum is {limit}")]
    TooLong {
        /// Size received in bytes.
        size: usize,
        /// Size allowed in bytes.
        limit: usize,
    },
    /// The text is not JSON, or exceeds a limit; `reason` says which and where.
    #[error("{reason} at line {line} column {column}")]
    Malformed {
        /// Reason in words, without the location.
        reason: String,
        /// Line number, from 1.
        line: usize,
        /// Column number, from 1.
        column: usize,
    },
    /// The text is JSON of another kind than expected.
    #[error("expected {expected}, found {found}")]
    WrongKind {
        /// The expected kind of value.
        expected: &'static str,
        /// The actual kind of value.
        found: &'static str,
    },
}

impl Json {
    /// Validates `text` against `limits` and stores its bytes.
    ///
    /// # Errors
    /// [`JsonError`] with the location of the first error.
    pub fn parse(text: impl Into<Bytes>, limits: JsonLimits) -> Result<Self, JsonError> {
        let text = check_size(&text.into(), limits)?;
        validator::validate(&text, limits).map(|()| Self(text))
    }

    /// Validates `text` and extracts some members in the same pass, as [`Json::pick`] does.
    ///
    /// # Errors
    /// As [`Json::parse`].
    pub fn parse_and_pick<const N: usize>(
        text: impl Into<Bytes>,
        limits: JsonLimits,
        keys: [&str; N],
    ) -> Result<(Self, [Option<Self>; N]), JsonError> {
        Self::parse_and_visit(text, limits, keys, |whole, found| {
            (whole.clone(), found.map(|look| Some(whole.slice_of(look?))))
        })
    }

    /// Validates `text` and passes some members, found in the same pass, to `read`. Use
    /// [`Json::slice_of`] to keep one.
    ///
    /// # Errors
    /// As [`Json::parse`].
    pub fn parse_and_visit<const N: usize, T>(
        text: impl Into<Bytes>,
        limits: JsonLimits,
        keys: [&str; N],
        read: impl FnOnce(&Self, [Option<JsonRef<'_>>; N]) -> T,
    ) -> Result<T, JsonError> {
        let whole = Self(check_size(&text.into(), limits)?);
        if let Some(found) = validator::validate_and_pick(&whole.0, limits, keys) {
            return Ok(read(&whole, found.map(|value| value.map(JsonRef))));
        }
        validator::validate(&whole.0, limits)?;
        Ok(read(&whole, whole.pick_refs(keys)))
    }

    /// Encodes a value of this program; such text needs no validation.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Self {
        // serde_json fails only for non-string map keys; our types have none, and `null` is then
        // the honest result.
        Self(serde_json::to_string(value).map_or_else(|_| "null".into(), ByteString::from))
    }

    /// Wraps text that this program wrote, such as concatenated rows, without validation. The
    /// caller vouches for it.
    pub fn from_trusted(text: String) -> Self {
        Self(text.into())
    }

    /// Returns the empty object.
    pub fn empty_object() -> Self {
        Self(ByteString::from_static("{}"))
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the bytes, shared.
    pub fn bytes(&self) -> &Bytes {
        self.0.as_bytes()
    }

    /// Parses the text into a tree. Integers beyond 64 bits become floating point; the bytes keep
    /// them.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }

    /// Decodes the text into `T`.
    ///
    /// # Errors
    /// The error of serde, with line and column.
    pub fn decode<T: for<'de> Deserialize<'de>>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Returns the content of a string, borrowed if it has no escapes; `None` for other kinds.
    pub fn string_value(&self) -> Option<Cow<'_, str>> {
        lexer::unescape_string(self.0.trim_ascii())
    }

    /// Returns `object`, `array`, `string`, `number`, `boolean` or `null`.
    pub fn kind(&self) -> &'static str {
        kind_of(&self.0)
    }

    /// Returns the text if it is an object.
    ///
    /// # Errors
    /// [`JsonError::WrongKind`].
    pub fn require_object(self) -> Result<Self, JsonError> {
        match self.kind() {
            "object" => Ok(self),
            found => Err(JsonError::WrongKind { expected: "object", found }),
        }
    }
}

fn kind_of(text: &str) -> &'static str {
    match text.bytes().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// Checks the size of a text and that it is UTF-8.
fn check_size(text: &Bytes, limits: JsonLimits) -> Result<ByteString, JsonError> {
    if text.len() > limits.max_bytes {
        return Err(JsonError::TooLong { size: text.len(), limit: limits.max_bytes });
    }
    validator::validate_utf8(text, limits)
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.0.len())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue =
            serde_json::from_str(self.as_str()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Only for text that this program wrote, such as records; untrusted text goes through
/// [`Json::parse`].
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(Bytes::from(String::from(Box::<str>::from(raw))), JsonLimits::DOCUMENT)
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
