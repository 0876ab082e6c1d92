//! What a model asks for and what came of it, whatever its provider's words.

use bytes::Bytes;
use tool::{Args, Json, JsonError, Limits, Outcome};

/// Calls in one message; more are refused. OpenAI takes 128 tools in a request.
pub const MAX_CALLS: usize = 128;

/// One call as a model asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedCall {
    /// The provider's id, which goes back with the outcome; `None` where it has none.
    pub id: Option<String>,
    /// The name as the model wrote it: an alias of [`crate::AliasMap`], or any other text.
    pub name: String,
    /// The arguments as the model wrote them, unread: they need be no JSON at all.
    pub text: Bytes,
}

impl RequestedCall {
    /// The arguments.
    ///
    /// # Errors
    /// Why they cannot be read, for the model to try again.
    pub fn args(&self) -> Result<Args, String> {
        self.args_within(Limits::ARGUMENTS)
    }

    /// The arguments of a tool that takes so many.
    ///
    /// # Errors
    /// As [`args`](Self::args).
    pub fn args_within(&self, limits: Limits) -> Result<Args, String> {
        let name = &self.name;
        Args::check_within(self.text.clone(), limits).map_err(|error| match error {
            JsonError::Kind { .. } => {
                format!("the arguments of `{name}` are no JSON object: {error}")
            }
            JsonError::TooLong { .. } | JsonError::Malformed { .. } => {
                format!("the arguments of `{name}` are not valid JSON: {error}")
            }
        })
    }
}

/// What came of one of the calls of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The provider's id of the call.
    pub id: Option<String>,
    /// The name as the model wrote it.
    pub name: String,
    /// What came of it.
    pub outcome: Outcome,
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

/// A member that may be absent or null, and else must be a string.
pub(crate) fn optional(object: &Json, key: &str, path: &str) -> Result<Option<String>, CallsError> {
    match object.get(key).filter(|found| found.kind() != "null") {
        Some(_) => text(object, key, path).map(Some),
        None => Ok(None),
    }
}

/// A member that must be an object.
pub(crate) fn object(holder: &Json, key: &str, path: &str) -> Result<Json, CallsError> {
    let found = holder.get(key);
    let object = found.clone().filter(|found| found.kind() == "object");
    object.ok_or_else(|| CallsError::shape(&format!("{path}{key}"), found.as_ref(), "an object"))
}

/// The elements of an array of calls, or of what calls stand among.
pub(crate) fn elements(list: &Json, path: &str) -> Result<Vec<Json>, CallsError> {
    match list.kind() {
        "array" => Ok(list.elements()),
        _ => Err(CallsError::shape(path, Some(list), "an array")),
    }
}

/// Reads each element that is a call.
pub(crate) fn each(
    list: &[Json],
    path: &str,
    read: impl Fn(&Json, &str) -> Result<Option<RequestedCall>, CallsError>,
) -> Result<Vec<RequestedCall>, CallsError> {
    let mut calls = Vec::new();
    for (index, element) in list.iter().enumerate() {
        calls.extend(read(element, &format!("{path}[{index}]."))?);
    }
    if calls.len() > MAX_CALLS {
        return Err(CallsError::TooMany { path: path.to_owned(), found: calls.len() });
    }
    Ok(calls)
}

/// Arguments as text, whether they came as a JSON string or as the object itself. Absent, `null` and
/// empty are what models send for a tool without parameters.
pub(crate) fn written(arguments: Option<Json>) -> Bytes {
    let none = || Json::empty().bytes().clone();
    let Some(arguments) = arguments.filter(|json| json.kind() != "null") else { return none() };
    match arguments.read::<String>() {
        Ok(text) if text.trim().is_empty() => none(),
        Ok(text) => text.into(),
        Err(_) => arguments.bytes().clone(),
    }
}

/// The arguments as an object, for a provider that writes them so. What is none cannot be written
/// there and is given as a text under `text`.
pub(crate) fn as_object(call: &RequestedCall) -> Json {
    match call.args() {
        Ok(args) => args.raw().clone(),
        Err(_) => Json::fields([("text", &as_string(call))]),
    }
}

/// The arguments as a JSON string.
pub(crate) fn as_string(call: &RequestedCall) -> Json {
    Json::of(&String::from_utf8_lossy(&call.text))
}
