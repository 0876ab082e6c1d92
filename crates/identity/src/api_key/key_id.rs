//! Public ids of API keys: creation, validation and conversion from text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::KeyIssueError;

/// Maximum length of an id.
const MAX_ID_CHARS: usize = 32;

/// Public id of a key, used in records and lists.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(String);

impl KeyId {
    /// Creates an id from text and validates it.
    ///
    /// # Errors
    /// [`KeyIssueError::InvalidId`] for anything but 1 to 32 lower-case letters and digits.
    pub fn new(id: impl Into<String>) -> Result<Self, KeyIssueError> {
        let id = id.into();
        if is_valid_id(&id) {
            Ok(Self(id))
        } else {
            Err(KeyIssueError::InvalidId(id.chars().take(64).collect()))
        }
    }

    /// Creates an id of 12 hexadecimal digits from random bytes. The store's compare-and-set
    /// detects a collision.
    pub fn random(random: [u8; 6]) -> Self {
        let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
        Self(random.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub(super) fn is_valid_id(id: &str) -> bool {
    (1..=MAX_ID_CHARS).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}
impl TryFrom<String> for KeyId {
    type Error = KeyIssueError;
    fn try_from(id: String) -> Result<Self, KeyIssueError> {
        Self::new(id)
    }
}
impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.0
    }
}
impl FromStr for KeyId {
    type Err = KeyIssueError;
    fn from_str(id: &str) -> Result<Self, KeyIssueError> {
        Self::new(id)
    }
}
