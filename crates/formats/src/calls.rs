//! What a model asks for, whatever its provider's words.

use tool::{Args, Json, JsonError};

/// Calls in one message; more are refused. OpenAI takes 128 tools in a request.
pub const MAX_CALLS: usize = 128;

/// One call as a model asked for it.
#[derive(Debug, Clone)]
pub struct RequestedCall {
    /// The provider's id, which goes back with the outcome; `None` where its envelope has it.
    pub id: Option<String>,
    /// The name as the model wrote it: an alias of [`crate::AliasMap`], or any other text.
    pub name: String,
    /// The arguments, or why they cannot be read, for the model to try again.
    pub args: Result<Args, String>,
}

/// A message in which no calls can be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallsError {
    /// Something is not there, or not of its kind.
    #[error("`{path}` is {found}; expected {expected}")]
    Shape {
        /// Where: `tool_calls[1].function.name`.
        path: String,
        /// What stands there.
        found: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// More than [`MAX_CALLS`].
    #[error("`{path}` has {found} calls; {MAX_CALLS} are allowed")]
    TooMany {
        /// Where.
        path: String,
        /// How many.
        found: usize,
    },
}

impl CallsError {
    pub(crate) fn shape(path: &str, found: Option<&Json>, expected: &'static str) -> Self {
        let found = found.map_or("missing", Json::kind).to_owned();
        Self::Shape { path: path.to_owned(), found, expected }
    }
}

/// A member that must be a string.
pub(crate) fn text(object: &Json, key: &str, path: &str) -> Result<String, CallsError> {
    let found = object.get(key);
    let text = found.as_ref().and_then(|json| json.read::<String>().ok());
    text.ok_or_else(|| CallsError::shape(&format!("{path}{key}"), found.as_ref(), "a string"))
}

/// Arguments that were read, or what to tell the model.
pub(crate) fn arguments(read: Result<Args, JsonError>, name: &str) -> Result<Args, String> {
    read.map_err(|error| match error {
        JsonError::Kind { .. } => format!("the arguments of `{name}` are no JSON object: {error}"),
        JsonError::TooLong { .. } | JsonError::Malformed { .. } => {
            format!("the arguments of `{name}` are not valid JSON: {error}")
        }
    })
}
