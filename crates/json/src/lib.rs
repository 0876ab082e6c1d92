//! Validated JSON text: bounded once on input, then read and spliced as bytes.
//!
//! All interfaces use one parser, so that none reads the same text differently: size, depth and key
//! count are bounded, duplicate keys and lone surrogates are rejected. The validated bytes are
//! stored and passed on unchanged.

mod find;
mod hidden;
mod look;
mod scan;
mod splice;
mod walk;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

pub use hidden::{hidden_escaped, made_visible};
pub use look::{Look, Pass};
pub use splice::{escape, quote};

/// JSON text that was validated by [`Json::check`]. Untrusted bytes cannot become one otherwise.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(ByteString);

/// Limits of accepted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size in bytes.
    pub bytes: usize,
    /// Maximum nesting of arrays and objects.
    pub depth: usize,
    /// Maximum number of keys and elements in total.
    pub nodes: usize,
}

impl Limits {
    /// Limits for arguments of a call: 1 MiB, 64 levels, 100,000 keys and elements.
    pub const ARGUMENTS: Self = Self { bytes: 1 << 20, depth: 64, nodes: 100_000 };
    /// Limits for one tool definition: 256 KiB, 64 levels, 20,000 keys and elements.
    pub const DEFINITION: Self = Self { bytes: 256 << 10, depth: 64, nodes: 20_000 };
    /// Limits for a document, such as a manifest or a result: 16 MiB, 64 levels, 2,000,000 nodes.
    pub const DOCUMENT: Self = Self { bytes: 16 << 20, depth: 64, nodes: 2_000_000 };
    /// Maximum size of any tool's arguments in bytes: 64 MiB.
    pub const MOST_ARGUMENTS: usize = 64 << 20;

    /// Returns the limits for a tool with this argument size: at least [`Limits::ARGUMENTS`], at
    /// most [`Limits::MOST_ARGUMENTS`], and 100,000 keys and elements per MiB.
    #[must_use]
    pub fn arguments(bytes: usize) -> Self {
        let bytes = bytes.clamp(Self::ARGUMENTS.bytes, Self::MOST_ARGUMENTS);
        Self { bytes, nodes: bytes.div_ceil(1 << 20) * Self::ARGUMENTS.nodes, ..Self::ARGUMENTS }
    }

    /// Returns the limits for a message that contains the arguments at this depth, so that
    /// arguments may nest equally deep in each kind of message.
    #[must_use]
    pub const fn around_arguments(self, levels: usize) -> Self {
        Self { depth: Self::ARGUMENTS.depth + levels, ..self }
    }
}

/// Errors of parsing JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text is longer than the limit.
    #[error("the JSON text has {size} bytes, {limit} are allowed")]
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
    Kind {
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
    pub fn check(text: impl Into<Bytes>, limits: Limits) -> Result<Self, JsonError> {
        let text = within(&text.into(), limits)?;
        scan::scan(&text, limits).map(|()| Self(text))
    }

    /// Validates `text` and extracts some members in the same pass, as [`Json::pick`] does.
    ///
    /// # Errors
    /// As [`Json::check`].
    pub fn check_and_pick<const N: usize>(
        text: impl Into<Bytes>,
        limits: Limits,
        keys: [&str; N],
    ) -> Result<(Self, [Option<Self>; N]), JsonError> {
        Self::check_and_read(text, limits, keys, |whole, found| {
            (whole.clone(), found.map(|look| Some(whole.share(look?))))
        })
    }

    /// Validates `text` and passes some members, found in the same pass, to `read`. Use
    /// [`Json::share`] to keep one.
    ///
    /// # Errors
    /// As [`Json::check`].
    pub fn check_and_read<const N: usize, T>(
        text: impl Into<Bytes>,
        limits: Limits,
        keys: [&str; N],
        read: impl FnOnce(&Self, [Option<Look<'_>>; N]) -> T,
    ) -> Result<T, JsonError> {
        let whole = Self(within(&text.into(), limits)?);
        if let Some(found) = scan::picked(&whole.0, limits, keys) {
            return Ok(read(&whole, found.map(|value| value.map(Look))));
        }
        scan::scan(&whole.0, limits)?;
        Ok(read(&whole, whole.looks(keys)))
    }

    /// Encodes a value of this program; such text needs no validation.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        // serde_json fails only for non-string map keys; our types have none, and `null` is then
        // the honest result.
        Self(serde_json::to_string(value).map_or_else(|_| "null".into(), ByteString::from))
    }

    /// Wraps text that this program wrote, such as concatenated rows, without validation. The
    /// caller vouches for it.
    pub fn written(text: String) -> Self {
        Self(text.into())
    }

    /// Returns the empty object.
    pub fn empty() -> Self {
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
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }

    /// Decodes the text into `T`.
    ///
    /// # Errors
    /// The error of serde, with line and column.
    pub fn read<T: for<'de> Deserialize<'de>>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Returns the content of a string, borrowed if it has no escapes; `None` for other kinds.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        walk::unquoted(self.0.trim_ascii())
    }

    /// Returns `object`, `array`, `string`, `number`, `boolean` or `null`.
    pub fn kind(&self) -> &'static str {
        kind_of(&self.0)
    }

    /// Returns the text if it is an object.
    ///
    /// # Errors
    /// [`JsonError::Kind`].
    pub fn object(self) -> Result<Self, JsonError> {
        match self.kind() {
            "object" => Ok(self),
            found => Err(JsonError::Kind { expected: "object", found }),
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
fn within(text: &Bytes, limits: Limits) -> Result<ByteString, JsonError> {
    if text.len() > limits.bytes {
        return Err(JsonError::TooLong { size: text.len(), limit: limits.bytes });
    }
    scan::text(text, limits)
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
/// [`Json::check`].
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::check(Bytes::from(String::from(Box::<str>::from(raw))), Limits::DOCUMENT)
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
