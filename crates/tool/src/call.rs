//! Defines a tool call: its id, caller, tool and arguments.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{Json, JsonError, JsonLimits, Org, PermissionLevel, Tool, ToolKey};

/// Identifier of one call: a UUID version 7, so that ids sort by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub Uuid);

impl CallId {
    /// Returns the chain id of a program with this call id: twelve hexadecimal digits, as the
    /// research registry defines it.
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
    #[serde(rename = "key")]
    pub key_id: String,
    /// Permission level of the caller.
    pub level: PermissionLevel,
    /// True if the credential belongs to an agent rather than a person.
    #[serde(rename = "agent")]
    pub is_agent: bool,
    /// Actors on behalf of the subject, nearest first; empty if the subject acts itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<Actor>,
    /// Id of the first key of the delegation chain, if `key` was delegated. Limits count by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "root")]
    pub root_key_id: Option<String>,
}

impl Caller {
    /// Returns the id of the key that limits count by: the first of the delegation chain, so that
    /// delegating a key yields no additional quota.
    pub fn limit_key_id(&self) -> &str {
        self.root_key_id.as_deref().unwrap_or(&self.key_id)
    }

    /// Returns true if `other` has the same organisation, subject and key: work that one of them began
    /// belongs to both.
    pub fn has_credential_of(&self, other: &Self) -> bool {
        self.org == other.org && self.subject == other.subject && self.key_id == other.key_id
    }
}

/// A party that acts on behalf of another (RFC 8693).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The user, as the key names it.
    pub subject: String,
    /// Id of the key; never the key itself.
    #[serde(rename = "key")]
    pub key_id: String,
}

/// Validated call arguments: the JSON text and, on demand, its parsed tree.
#[derive(Debug, Clone)]
pub struct CallArguments {
    json: Json,
    /// Parsed on first access: the tree of a large text takes many times its size.
    value_tree: Arc<OnceLock<Value>>,
}

impl CallArguments {
    /// Validates `text` against [`JsonLimits::ARGUMENTS`]; it must be an object.
    ///
    /// # Errors
    /// [`JsonError`] with the place.
    pub fn parse(text: impl Into<bytes::Bytes>) -> Result<Self, JsonError> {
        Self::parse_with_limits(text, JsonLimits::ARGUMENTS)
    }

    /// Validates `text` against the limits of one tool.
    ///
    /// # Errors
    /// [`JsonError`] with the place.
    pub fn parse_with_limits(
        text: impl Into<bytes::Bytes>,
        limits: JsonLimits,
    ) -> Result<Self, JsonError> {
        Json::parse(text, limits).and_then(Self::from_json)
    }

    /// Accepts text that was already validated against `by` as part of its message. Validates it
    /// again only if `limits` are stricter.
    ///
    /// # Errors
    /// [`JsonError`] with the place.
    pub fn from_validated(
        json: Json,
        validated_limits: JsonLimits,
        limits: JsonLimits,
    ) -> Result<Self, JsonError> {
        let size = json.bytes().len();
        // Each key and each element takes a byte at least.
        let nodes = validated_limits.max_nodes.min(size);
        if size <= limits.max_bytes
            && validated_limits.max_depth <= limits.max_depth
            && nodes <= limits.max_nodes
        {
            return Self::from_json(json);
        }
        Self::parse_with_limits(json.bytes().clone(), limits)
    }

    /// Wraps text that was validated elsewhere.
    ///
    /// # Errors
    /// [`JsonError::WrongKind`] if it is not an object.
    pub fn from_json(json: Json) -> Result<Self, JsonError> {
        Ok(Self { json: json.require_object()?, value_tree: Arc::default() })
    }

    /// Returns the JSON text as received.
    pub fn as_json(&self) -> &Json {
        &self.json
    }

    /// Returns the parsed tree; it is built on first access.
    pub fn as_value(&self) -> &Value {
        self.value_tree.get_or_init(|| self.json.to_value())
    }
}

/// One call on its way to an executor.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Id of this call.
    pub id: CallId,
    /// The call that made this one.
    pub parent_id: Option<CallId>,
    /// State and input responses of the pending call that this one continues.
    pub resumption: Option<CallResumption>,
    /// Input responses that the client sent before any request: MCP's `inputResponses` without a
    /// state. A source that asks for input may use them.
    pub unsolicited_input: Option<Json>,
    /// Key of the called tool.
    pub tool_key: ToolKey,
    /// Definition of the tool in the snapshot that was decided on.
    pub tool: Arc<Tool>,
    /// Validated arguments of the call.
    pub arguments: CallArguments,
}

/// State and input responses that a continued call brings along.
#[derive(Debug, Clone)]
pub struct CallResumption {
    /// Id of the pending call.
    pub pending_call_id: CallId,
    /// Executor's own state, as it was returned in [`crate::PendingReason`].
    pub state: bytes::Bytes,
    /// Responses to the executor's input requests.
    pub input_responses: Json,
}

#[cfg(test)]
mod tests {
    use super::{Actor, CallArguments, Caller};

    #[test]
    fn a_caller_of_an_older_record_acts_for_nobody() {
        let old = r#"{"org":"default","subject":"ann","key":"k","level":"user","agent":true}"#;
        let mut caller: Caller = serde_json::from_str(old).unwrap();
        assert_eq!(caller.actors, []);
        // And one that acts for nobody is written as it was.
        assert_eq!(serde_json::to_string(&caller).unwrap(), old);
        caller.actors.push(Actor { subject: "core".to_owned(), key_id: "b".to_owned() });
        let new = serde_json::to_string(&caller).unwrap();
        assert_eq!(serde_json::from_str::<Caller>(&new).unwrap(), caller);
    }

    #[test]
    fn arguments_are_an_object() {
        assert_eq!(CallArguments::parse(r#"{"a":1}"#).unwrap().as_value()["a"], 1);
        assert_eq!(
            CallArguments::parse("[]").unwrap_err().to_string(),
            "expected object, found array"
        );
    }

    #[test]
    fn what_was_checked_under_wider_limits_is_checked_again() {
        use crate::{Json, JsonLimits};
        let json = Json::parse(r#"{"a":[1,[2]]}"#, JsonLimits::DOCUMENT).unwrap();
        let tight = JsonLimits { max_bytes: 20, max_depth: 2, max_nodes: 3 };
        assert!(
            CallArguments::from_validated(json.clone(), tight, tight).is_ok(),
            "it was looked at again"
        );
        for by in [
            JsonLimits { max_depth: 3, ..tight },
            JsonLimits { max_nodes: 4, ..tight },
            JsonLimits::DOCUMENT,
        ] {
            assert!(CallArguments::from_validated(json.clone(), by, tight).is_err(), "{by:?}");
        }
        // So short a text cannot have so many.
        let many = JsonLimits { max_nodes: usize::MAX, ..JsonLimits::DOCUMENT };
        assert!(CallArguments::from_validated(json.clone(), many, JsonLimits::ARGUMENTS).is_ok());
        assert!(
            CallArguments::from_validated(json, tight, JsonLimits { max_bytes: 10, ..tight })
                .is_err()
        );
        assert!(CallArguments::from_validated(Json::encode(&[1]), tight, tight).is_err());
    }

    #[test]
    fn a_tool_that_takes_more_takes_more_nodes_too() {
        use crate::JsonLimits;
        assert_eq!(JsonLimits::for_arguments(0), JsonLimits::ARGUMENTS);
        let large = JsonLimits::for_arguments(3 << 20);
        assert_eq!((large.max_bytes, large.max_nodes, large.max_depth), (3 << 20, 300_000, 64));
        assert_eq!(JsonLimits::for_arguments(usize::MAX).max_bytes, JsonLimits::MAX_ARGUMENT_BYTES);
        let text = format!(r#"{{"a":[{}1]}}"#, "1,".repeat(150_000));
        assert!(CallArguments::parse(text.clone()).is_err());
        assert!(CallArguments::parse_with_limits(text, large).is_ok());
    }
}
