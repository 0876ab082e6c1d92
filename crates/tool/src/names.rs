//! Defines validated names of tools, sources and organisations, and the key that identifies a tool.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Maximum length of a name in bytes. MCP 2025-11-25 allows 1 to 128 of `A-Z a-z 0-9 _ . -`.
pub const MAX_NAME_BYTES: usize = 128;

/// Errors of a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("the name is empty")]
    Empty,
    /// The name is longer than [`MAX_NAME_BYTES`].
    #[error("the name `{name}` has {length} characters; the maximum is {MAX_NAME_BYTES}")]
    TooLong {
        /// The name, cut to a bounded length.
        name: String,
        /// Its length in bytes.
        length: usize,
    },
    /// A character outside the allowed set.
    #[error(
        "the name `{}` contains {character:?}; allowed are letters, digits, `_`, `.` and `-`",
        name.escape_debug()
    )]
    Character {
        /// The name that was rejected.
        name: String,
        /// First character that is not allowed.
        character: char,
    },
    /// A name reserved for Toolkeep's own sources.
    #[error("the name `{0}` is reserved for Toolkeep's own sources; choose another name")]
    Reserved(String),
}

fn validate_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_NAME_BYTES {
        let cut = name.chars().take(32).collect::<String>() + "…";
        return Err(NameError::TooLong { name: cut, length: name.len() });
    }
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    match name.chars().find(|c| !fits(c)) {
        Some(character) => Err(NameError::Character { name: name.to_owned(), character }),
        None => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates length and characters.
            ///
            /// # Errors
            /// [`NameError`] with the fault.
            pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
                validate_name(name.as_ref())?;
                Ok(Self(name.as_ref().into()))
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "`{}`", self.0)
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(name: String) -> Result<Self, NameError> {
                Self::new(name)
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.as_str().to_owned()
            }
        }
        impl std::str::FromStr for $name {
            type Err = NameError;
            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }
    };
}

name! {
    /// Name of a tool as given by its source, including any prefix.
    ToolName
}
name! {
    /// Name that the operator gave a source.
    SourceName
}
name! {
    /// An organisation. A single machine has one: [`Org::default`].
    Org
}

/// Name of the source of built-in tools.
pub const BUILTIN_SOURCE: &str = "builtin";
/// Source name under which problems of the configuration are listed.
pub const CONFIGURATION_SOURCE: &str = "configuration";
/// Source name under which problems of the store are listed.
pub const STORE_SOURCE: &str = "toolkeep-store";
/// Source name under which an unavailable cache of module manifests is listed.
pub const CACHE_SOURCE: &str = "toolkeep-cache";
/// Path segment below `/mcp` at which the server card is, and therefore no name of a source.
pub const SERVER_CARD_SEGMENT: &str = "server-card";

impl SourceName {
    /// Validates a source name given by an operator: it must not be reserved.
    ///
    /// # Errors
    /// [`NameError`] with the fault.
    pub fn from_operator(name: &str) -> Result<Self, NameError> {
        let prefixes =
            [crate::node_registry::NODE_SOURCE_PREFIX, crate::plugin_admin::PLUGIN_SOURCE_PREFIX];
        let own =
            [BUILTIN_SOURCE, CONFIGURATION_SOURCE, STORE_SOURCE, CACHE_SOURCE, SERVER_CARD_SEGMENT];
        let reserved =
            own.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix));
        if reserved { Err(NameError::Reserved(name.to_owned())) } else { Self::new(name) }
    }
}

impl Default for Org {
    fn default() -> Self {
        Self("default".into())
    }
}

/// Identifies a tool by organisation, source and name; another source may offer the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ToolKey {
    /// Organisation of the tool.
    pub org: Org,
    /// Source that offers the item.
    pub source: SourceName,
    /// Name of the tool.
    pub name: ToolName,
}

impl ToolKey {
    /// Returns `SOURCE.NAME`, which identifies this tool whatever other sources offer.
    ///
    /// # Errors
    /// If the result is too long for a name.
    pub fn qualified_name(&self) -> Result<ToolName, NameError> {
        ToolName::new(format!("{}.{}", self.source, self.name))
    }
}

impl fmt::Display for ToolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.org, self.source, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::{NameError, SourceName, ToolName};

    #[test]
    fn an_operator_gives_no_source_a_name_of_toolkeeps_own() {
        for reserved in [
            "builtin",
            "configuration",
            "toolkeep-store",
            "toolkeep-cache",
            "server-card",
            "node.a",
            "plugin.notes",
        ] {
            let error = SourceName::from_operator(reserved).unwrap_err();
            assert_eq!(error, NameError::Reserved(reserved.to_owned()));
            assert!(SourceName::new(reserved).is_ok(), "Toolkeep itself has it");
        }
        for free in ["Builtin2", "node", "plugin", "nodes.a", "files"] {
            assert_eq!(SourceName::from_operator(free).unwrap().as_str(), free);
        }
    }

    #[test]
    fn names() {
        for good in ["a", "notes.append", "A-b_c.9", &"x".repeat(128)] {
            assert_eq!(ToolName::new(good).unwrap().as_str(), good);
        }
        assert_eq!(ToolName::new(""), Err(NameError::Empty));
        assert!(matches!(ToolName::new("x".repeat(129)), Err(NameError::TooLong { .. })));
        let error = ToolName::new("a\u{202e}b").unwrap_err().to_string();
        assert_eq!(
            error,
            "the name `a\\u{202e}b` contains '\\u{202e}'; allowed are letters, digits, `_`, `.` \
             and `-`"
        );
    }
}
