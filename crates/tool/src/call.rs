//! Defines a tool call: its id, caller, tool and arguments.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{Json, JsonError, Level, Limits, Org, Tool, ToolKey};

/// Identifier of one call: a UUID version 7, so that ids sort by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub Uuid);

impl CallId {
    /// Returns the chain id of a program with this call id: twelve hexadecimal digits, as the
    /// tool-file registry defines it.
    pub fn chain_id(self) -> String {
        let digits = self.0.simple().to_string();
        digits.get(digits.len().saturating_sub(12)..).unwrap_or_default().to_owned()
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Distinguishes calls that a model makes directly from calls that a program makes on its behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallerType {
    /// Made by a model or a person.
    Direct,
    /// Made by a program, in a chain of calls.
    Chain,
}

/// Facts about a principal that executors and records may see. They grant nothing: rights are
/// decided on `identity::Principal`, which only a credential makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Organisation of the caller.
    pub org: Org,
    /// The user, as the key names it.
    pub subject: String,
    /// Id of the credential; never the credential.
    pub key: String,
    /// Permission level of the caller.
    pub level: Level,
    /// True if the credential belongs to an agent rather than a person.
    pub agent: bool,
    /// Actors on behalf of the subject, nearest first; empty if the subject acts itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<Actor>,
    /// Id of the first key of the delegation chain, if `key` was delegated. Limits count by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
}

impl Caller {
    /// Returns the id of the key that limits count by: the first of the delegation chain, so that
    /// delegating a key yields no additional quota.
    pub fn root_key(&self) -> &str {
        self.root.as_deref().unwrap_or(&self.key)
    }
}

/// A party that acts on behalf of another (RFC 8693).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The user, as the key names it.
    pub subject: String,
    /// Id of the key; never the key itself.
    pub key: String,
}

/// Validated call arguments: the JSON text and, on demand, its parsed tree.
#[derive(Debug, Clone)]
pub struct Args {
    raw: Json,
    /// Parsed on first access: the tree of a large text takes many times its size.
    value: Arc<OnceLock<Value>>,
}

impl Args {
    /// Validates `text` against [`Limits::ARGUMENTS`]; it must be an object.
    ///
    /// # Errors
    /// [`JsonError`] with the place.
    pub fn check(text: impl Into<bytes::Bytes>) -> Result<Self, JsonError> {
        Self::check_within(text, Limits::ARGUMENTS)
    }

    /// Validates `text` against the limits of one tool.
    ///
    /// # Errors
    /// [`JsonError`] with the place.
    pub fn check_within(text: impl Into<bytes::Bytes>, limits: Limits) -> Result<Self, JsonError> {
        Json::check(text, limits).and_then(Self::from_json)
    }

    /// Accepts text that was already validated against `by` as part of its message. Validates it
    /// again only if `limits` are stricter.
    ///
    /// # Errors
    /// [`JsonError`] with the place.
    pub fn checked(json: Json, by: Limits, limits: Limits) -> Result<Self, JsonError> {
        let size = json.bytes().len();
        // Each key and each element takes a byte at least.
        let nodes = by.nodes.min(size);
        if size <= limits.bytes && by.depth <= limits.depth && nodes <= limits.nodes {
            return Self::from_json(json);
        }
        Self::check_within(json.bytes().clone(), limits)
    }

    /// Wraps text that was validated elsewhere.
    ///
    /// # Errors
    /// [`JsonError::Kind`] where it is no object.
    pub fn from_json(json: Json) -> Result<Self, JsonError> {
        Ok(Self { raw: json.object()?, value: Arc::default() })
    }

    /// Returns the JSON text as received.
    pub fn raw(&self) -> &Json {
        &self.raw
    }

    /// Returns the parsed tree; it is built on first access.
    pub fn value(&self) -> &Value {
        self.value.get_or_init(|| self.raw.value())
    }
}

/// One call on its way to an executor.
#[derive(Debug, Clone)]
pub struct Call {
    /// Id of this call.
    pub id: CallId,
    /// The call that made this one.
    pub parent: Option<CallId>,
    /// State and input responses of the pending call that this one continues.
    pub continues: Option<Resume>,
    /// Input responses that the client sent before any request: MCP's `inputResponses` without a
    /// state. A source that asks for input may use them.
    pub unasked: Option<Json>,
    /// Key of the called tool.
    pub key: ToolKey,
    /// Definition of the tool in the snapshot that was decided on.
    pub tool: Arc<Tool>,
    /// Validated arguments of the call.
    pub args: Args,
}

/// State and input responses that a continued call brings along.
#[derive(Debug, Clone)]
pub struct Resume {
    /// Id of the pending call.
    pub call: CallId,
    /// Executor's own state, as it was returned in [`crate::Wait`].
    pub state: bytes::Bytes,
    /// Responses to the executor's input requests.
    pub answers: Json,
}

#[cfg(test)]
mod tests {
    use super::{Actor, Args, Caller};

    #[test]
    fn a_caller_of_an_older_record_acts_for_nobody() {
        let old = r#"{"org":"default","subject":"ann","key":"k","level":"user","agent":true}"#;
        let mut caller: Caller = serde_json::from_str(old).unwrap();
        assert_eq!(caller.actors, []);
        // And one that acts for nobody is written as it was.
        assert_eq!(serde_json::to_string(&caller).unwrap(), old);
        caller.actors.push(Actor { subject: "core".to_owned(), key: "b".to_owned() });
        let new = serde_json::to_string(&caller).unwrap();
        assert_eq!(serde_json::from_str::<Caller>(&new).unwrap(), caller);
    }

    #[test]
    fn arguments_are_an_object() {
        assert_eq!(Args::check(r#"{"a":1}"#).unwrap().value()["a"], 1);
        assert_eq!(Args::check("[]").unwrap_err().to_string(), "expected object, found array");
    }

    #[test]
    fn what_was_checked_under_wider_limits_is_checked_again() {
        use crate::{Json, Limits};
        let json = Json::check(r#"{"a":[1,[2]]}"#, Limits::DOCUMENT).unwrap();
        let tight = Limits { bytes: 20, depth: 2, nodes: 3 };
        assert!(Args::checked(json.clone(), tight, tight).is_ok(), "it was looked at again");
        for by in [Limits { depth: 3, ..tight }, Limits { nodes: 4, ..tight }, Limits::DOCUMENT] {
            assert!(Args::checked(json.clone(), by, tight).is_err(), "{by:?}");
        }
        // So short a text cannot have so many.
        let many = Limits { nodes: usize::MAX, ..Limits::DOCUMENT };
        assert!(Args::checked(json.clone(), many, Limits::ARGUMENTS).is_ok());
        assert!(Args::checked(json, tight, Limits { bytes: 10, ..tight }).is_err());
        assert!(Args::checked(Json::of(&[1]), tight, tight).is_err());
    }

    #[test]
    fn a_tool_that_takes_more_takes_more_nodes_too() {
        use crate::Limits;
        assert_eq!(Limits::arguments(0), Limits::ARGUMENTS);
        let large = Limits::arguments(3 << 20);
        assert_eq!((large.bytes, large.nodes, large.depth), (3 << 20, 300_000, 64));
        assert_eq!(Limits::arguments(usize::MAX).bytes, Limits::MOST_ARGUMENTS);
        let text = format!(r#"{{"a":[{}1]}}"#, "1,".repeat(150_000));
        assert!(Args::check(text.clone()).is_err());
        assert!(Args::check_within(text, large).is_ok());
    }
}
