//! Tool calls and their results, independent of the provider.

use bytes::Bytes;
use tool::{CallArguments, Json, JsonError, JsonLimits, Outcome};

/// Calls in one message; more are refused. OpenAI takes 128 tools in a request.
pub const MAX_CALLS: usize = 128;

/// A tool call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallRequest {
    /// Provider's id of the call, which the result repeats; `None` if it has none.
    pub id: Option<String>,
    /// The name as the model wrote it: an alias of [`crate::AliasMap`], or any other text.
    pub name: String,
    /// OpenAI's namespace of the function, which must be sent back with the call; `None` elsewhere.
    pub namespace: Option<String>,
    /// The unparsed arguments as the model wrote them; they may be invalid JSON.
    pub arguments_text: Bytes,
}

impl ToolCallRequest {
    /// Parses the arguments within the default limits.
    ///
    /// # Errors
    /// The reason why the arguments cannot be parsed, as text for the model.
    ///
    /// # Errors
    /// Why they cannot be read, for the model to try again.
    pub fn parse_arguments(&self) -> Result<CallArguments, String> {
        self.parse_arguments_within(JsonLimits::ARGUMENTS)
    }

    /// Parses the arguments within the limits of the tool.
    ///
    /// # Errors
    /// As [`parse_arguments`](Self::parse_arguments).
    pub fn parse_arguments_within(&self, limits: JsonLimits) -> Result<CallArguments, String> {
        let name = &self.name;
        CallArguments::parse_with_limits(self.arguments_text.clone(), limits).map_err(|error| {
            match error {
                JsonError::WrongKind { .. } => {
                    format!("the arguments of `{name}` are not a JSON object: {error}")
                }
                JsonError::TooLong { .. } | JsonError::Malformed { .. } => {
                    format!("the arguments of `{name}` are not valid JSON: {error}")
                }
            }
        })
    }
}

/// Result of one of the calls of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallResult {
    /// The provider's id of the call.
    pub id: Option<String>,
    /// The name as the model wrote it.
    pub name: String,
    /// The outcome of the call.
    pub outcome: Outcome,
}

/// Error of parsing the calls of a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseCallsError {
    /// A member is missing or has another type.
    #[error("`{path}` is {found}; expected {expected}")]
    UnexpectedType {
        /// Where: `tool_calls[1].function.name`.
        path: String,
        /// The type that was found.
        found: String,
        /// The type that is expected.
        expected: &'static str,
    },
    /// More than [`MAX_CALLS`].
    #[error("`{path}` has {found} calls; the maximum is {MAX_CALLS}")]
    TooManyCalls {
        /// Where.
        path: String,
        /// Number of calls in the message.
        found: usize,
    },
}

impl ParseCallsError {
    pub(crate) fn unexpected_type(
        path: &str,
        found: Option<&Json>,
        expected: &'static str,
    ) -> Self {
        let found = found.map_or("missing", Json::kind).to_owned();
        Self::UnexpectedType { path: path.to_owned(), found, expected }
    }
}

/// Returns a member that must be a string.
pub(crate) fn required_string(
    object: &Json,
    key: &str,
    path: &str,
) -> Result<String, ParseCallsError> {
    let found = object.get(key);
    let text = found.as_ref().and_then(|json| json.decode::<String>().ok());
    text.ok_or_else(|| {
        ParseCallsError::unexpected_type(&format!("{path}{key}"), found.as_ref(), "a string")
    })
}

/// Returns a member that may be absent or null, and otherwise must be a string.
pub(crate) fn optional_string(
    object: &Json,
    key: &str,
    path: &str,
) -> Result<Option<String>, ParseCallsError> {
    match object.get(key).filter(|found| found.kind() != "null") {
        Some(_) => required_string(object, key, path).map(Some),
        None => Ok(None),
    }
}

/// Returns a member that must be an object.
pub(crate) fn required_object(
    holder: &Json,
    key: &str,
    path: &str,
) -> Result<Json, ParseCallsError> {
    let found = holder.get(key);
    let object = found.clone().filter(|found| found.kind() == "object");
    object.ok_or_else(|| {
        ParseCallsError::unexpected_type(&format!("{path}{key}"), found.as_ref(), "an object")
    })
}

/// Returns the elements of an array that contains calls.
pub(crate) fn require_array(list: &Json, path: &str) -> Result<Vec<Json>, ParseCallsError> {
    match list.kind() {
        "array" => Ok(list.elements()),
        _ => Err(ParseCallsError::unexpected_type(path, Some(list), "an array")),
    }
}

/// Reads each element that is a call.
pub(crate) fn parse_each<T>(
    list: &[Json],
    path: &str,
    parse: impl Fn(&Json, &str) -> Result<Option<T>, ParseCallsError>,
) -> Result<Vec<T>, ParseCallsError> {
    let mut calls = Vec::new();
    for (index, element) in list.iter().enumerate() {
        calls.extend(parse(element, &format!("{path}[{index}]."))?);
    }
    if calls.len() > MAX_CALLS {
        return Err(ParseCallsError::TooManyCalls { path: path.to_owned(), found: calls.len() });
    }
    Ok(calls)
}

/// Returns the arguments as text, from a JSON string or from the object itself. Absent, `null` and
/// empty are what models send for a tool without parameters.
pub(crate) fn arguments_text(arguments: Option<Json>) -> Bytes {
    let none = || Json::empty_object().bytes().clone();
    let Some(arguments) = arguments.filter(|json| json.kind() != "null") else { return none() };
    match arguments.decode::<String>() {
        Ok(text) if text.trim().is_empty() => none(),
        Ok(text) => text.into(),
        Err(_) => arguments.bytes().clone(),
    }
}

/// Returns the arguments as an object. Arguments that are not an object become a string in the
/// field `text`.
pub(crate) fn arguments_object(call: &ToolCallRequest) -> Json {
    match call.parse_arguments() {
        Ok(args) => args.as_json().clone(),
        Err(_) => Json::object_from([("text", &arguments_string(call))]),
    }
}

/// Returns the arguments as a JSON string.
pub(crate) fn arguments_string(call: &ToolCallRequest) -> Json {
    Json::encode(&String::from_utf8_lossy(&call.arguments_text))
}
