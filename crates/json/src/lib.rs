//! JSON that was checked once, where it came in.
//!
//! One parser stands at every door, so that two doors cannot read the same text differently: size,
//! depth and key count are bounded, a key that occurs twice in one object and a lone surrogate are
//! refused. What was checked is what runs: the bytes are kept and passed on as they came.

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

/// JSON text that passed [`Json::check`]. There is no other way to make one from outside bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(ByteString);

/// What a door accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text.
    pub bytes: usize,
    /// Nested arrays and objects.
    pub depth: usize,
    /// Keys and elements in all.
    pub nodes: usize,
}

impl Limits {
    /// Arguments of a call: 1 MiB, 64 levels, 100,000 keys and elements.
    pub const ARGUMENTS: Self = Self { bytes: 1 << 20, depth: 64, nodes: 100_000 };
    /// One tool definition: 256 KiB, 64 levels, 20,000 keys and elements.
    pub const DEFINITION: Self = Self { bytes: 256 << 10, depth: 64, nodes: 20_000 };
    /// A whole document, such as a manifest or a result: 16 MiB, 64 levels, 2,000,000 nodes.
    pub const DOCUMENT: Self = Self { bytes: 16 << 20, depth: 64, nodes: 2_000_000 };
    /// The most that any tool's arguments may have, in bytes: 64 MiB.
    pub const MOST_ARGUMENTS: usize = 64 << 20;

    /// Arguments of a call of a tool that takes so many bytes: [`Limits::ARGUMENTS`] at least,
    /// [`Limits::MOST_ARGUMENTS`] at most, and 100,000 keys and elements for each MiB.
    #[must_use]
    pub fn arguments(bytes: usize) -> Self {
        let bytes = bytes.clamp(Self::ARGUMENTS.bytes, Self::MOST_ARGUMENTS);
        Self { bytes, nodes: bytes.div_ceil(1 << 20) * Self::ARGUMENTS.nodes, ..Self::ARGUMENTS }
    }

    /// The same for a message in which the arguments of a call are this many levels deep: they may have as many levels in each kind of
    /// message.
    #[must_use]
    pub const fn around_arguments(self, levels: usize) -> Self {
        Self { depth: Self::ARGUMENTS.depth + levels, ..self }
    }
}

/// Why a text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text is longer than the door takes.
    #[error("the JSON text has {size} bytes, {limit} are allowed")]
    TooLong {
        /// Bytes received.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Not JSON, or one of the bounds was passed; `reason` names which and where.
    #[error("{reason} at line {line} column {column}")]
    Malformed {
        /// What is wrong, in words.
        reason: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// JSON, but not the kind that belongs here.
    #[error("expected {expected}, found {found}")]
    Kind {
        /// The kind asked for.
        expected: &'static str,
        /// The kind found.
        found: &'static str,
    },
}

impl Json {
    /// Checks `text` against `limits` and keeps its bytes.
    ///
    /// # Errors
    /// [`JsonError`] with the place of the first fault.
    pub fn check(text: impl Into<Bytes>, limits: Limits) -> Result<Self, JsonError> {
        let text = within(&text.into(), limits)?;
        scan::scan(&text, limits).map(|()| Self(text))
    }

    /// Checks `text`, and takes some members out of it in the same pass, as [`Json::pick`] does.
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

    /// Checks `text`, and shows `read` some members of it that were found in the same pass. What of them is
    /// to stay is shared, see [`Json::share`].
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

    /// Writes a value that this program made itself; such text needs no check.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        // A value with a non-string map key is the only thing serde_json cannot write; our own
        // types have none, and `null` is then the honest answer.
        Self(serde_json::to_string(value).map_or_else(|_| "null".into(), ByteString::from))
    }

    /// Text that this program wrote itself, such as rows put together one by one. It is not looked at
    /// again: who calls this answers for it.
    pub fn written(text: String) -> Self {
        Self(text.into())
    }

    /// The empty object.
    pub fn empty() -> Self {
        Self(ByteString::from_static("{}"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes, shared.
    pub fn bytes(&self) -> &Bytes {
        self.0.as_bytes()
    }

    /// The text as a tree. Integers past 64 bits become floating point here; the bytes keep them.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }

    /// Reads the text into `T`.
    ///
    /// # Errors
    /// serde's, with line and column.
    pub fn read<T: for<'de> Deserialize<'de>>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// What a string says; borrowed, where nothing in it is escaped. Nothing for anything else.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        walk::unquoted(self.0.trim_ascii())
    }

    /// `object`, `array`, `string`, `number`, `boolean` or `null`.
    pub fn kind(&self) -> &'static str {
        kind_of(&self.0)
    }

    /// Refuses everything but an object.
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

/// Text of no more bytes than are taken.
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

/// Only for what this program wrote itself, such as records; text from outside goes through
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
