//! A call: who, what, with which arguments.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{Json, JsonError, Level, Limits, Org, Tool, ToolKey};

/// Names one call. A UUID version 7, so that ids sort by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub Uuid);

impl CallId {
    /// The chain of a program with this id, as spec 3 has it: twelve hexadecimal digits.
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

/// Who makes the call: a model itself, or a program on its behalf (spec 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallerType {
    /// A model, or a person.
    Direct,
    /// A program, in a chain of calls.
    Chain,
}

/// The facts of a principal that an executor and a record may see. It grants nothing: rights are
/// decided on `identity::Principal`, which only a credential makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Organisation.
    pub org: Org,
    /// The user, as the key names it.
    pub subject: String,
    /// Id of the credential; never the credential.
    pub key: String,
    /// Permission level.
    pub level: Level,
    /// Whether the credential belongs to an agent rather than a person.
    pub agent: bool,
    /// Who acts on behalf of the subject, the nearest first; empty where the subject acts itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<Actor>,
    /// Id of the first key of the delegation chain, where `key` was delegated. Limits count by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
}

impl Caller {
    /// Id of the key that limits count by: the first of the delegation chain, so that delegating keys
    /// gives nobody more.
    pub fn root_key(&self) -> &str {
        self.root.as_deref().unwrap_or(&self.key)
    }
}

/// One who acts on behalf of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The user, as its key names it.
    pub subject: String,
    /// Id of its key; never the key.
    pub key: String,
}

/// Arguments: the text that was checked, and the same text as a tree for those who ask for it.
#[derive(Debug, Clone)]
pub struct Args {
    raw: Json,
    /// Made when it is first looked at: of a large text it has many times the size.
    value: Arc<OnceLock<Value>>,
}

impl Args {
    /// Checks `text` once, against [`Limits::ARGUMENTS`]; it must be an object.
    ///
    /// # Errors
    /// [`JsonError`] with the place.
    pub fn check(text: impl Into<bytes::Bytes>) -> Result<Self, JsonError> {
        Self::check_within(text, Limits::ARGUMENTS)
    }

    /// The same against the limits of one tool.
    ///
    /// # Errors
    /// [`JsonError`] with the place.
    pub fn check_within(text: impl Into<bytes::Bytes>, limits: Limits) -> Result<Self, JsonError> {
        Json::check(text, limits).and_then(Self::from_json)
    }

    /// From text that was held against `by` as a part of the message it came in: where those allow
    /// nothing that `limits` do not, it is not looked at again.
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

    /// From text checked elsewhere.
    ///
    /// # Errors
    /// [`JsonError::Kind`] where it is no object.
    pub fn from_json(json: Json) -> Result<Self, JsonError> {
        Ok(Self { raw: json.object()?, value: Arc::default() })
    }

    /// The text, as it came.
    pub fn raw(&self) -> &Json {
        &self.raw
    }

    /// The tree; made at the first look.
    pub fn value(&self) -> &Value {
        self.value.get_or_init(|| self.raw.value())
    }
}

/// One call, on its way to an executor.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its id.
    pub id: CallId,
    /// The call that made this one.
    pub parent: Option<CallId>,
    /// The call whose wait this one ends, with what its executor wanted back.
    pub continues: Option<Resume>,
    /// Answers to what was not asked, from a client that knows what will be: MCP's `inputResponses`
    /// without a state. A source that asks in its own words may take them.
    pub unasked: Option<Json>,
    /// Which tool.
    pub key: ToolKey,
    /// The tool as it stands in the snapshot that was decided on.
    pub tool: Arc<Tool>,
    /// The arguments.
    pub args: Args,
}

/// What a call that goes on brings along.
#[derive(Debug, Clone)]
pub struct Resume {
    /// The call that waited.
    pub call: CallId,
    /// The executor's own state, as it asked for it in its [`crate::Wait`].
    pub state: bytes::Bytes,
    /// The answers to its questions.
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
