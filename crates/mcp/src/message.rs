//! A JSON-RPC message, parsed once: the validated bytes are the ones that are forwarded and
//! executed.

use std::borrow::Cow;

use bytes::Bytes;
use json::JsonRef;
use tool::{Json, JsonError, JsonLimits};

use crate::{RequestId, error_codes};

/// A JSON-RPC message: request, notification or response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RpcMessage {
    /// A message that expects a response.
    Request(RpcRequest),
    /// A message without a response.
    Notification(RpcNotification),
    /// The response to a request.
    Response(RpcResponse),
}

/// A JSON-RPC request with its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcRequest {
    /// The id that the response repeats.
    pub id: RequestId,
    /// Name of the requested method.
    pub method: String,
    /// Parameter object, as received.
    pub params: Option<Json>,
}

/// A JSON-RPC notification, which has no id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcNotification {
    /// Name of the notification's method.
    pub method: String,
    /// Parameter object, as received.
    pub params: Option<Json>,
}

/// A JSON-RPC response with result or error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcResponse {
    /// Id of the request; `None` only for an error that names no request.
    pub id: Option<RequestId>,
    /// Result or error, as received.
    pub result: Result<Json, RpcError>,
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// Error code; see [`crate::error_codes`].
    pub code: i64,
    /// Error text. If it comes from the other side it is not bounded here; callers must truncate it
    /// before display.
    pub message: String,
    /// Additional data, as received.
    pub data: Option<Json>,
}

impl RpcError {
    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// Error: the text is not a valid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct MessageError {
    /// Id of the message, if it could be read.
    pub id: Option<RequestId>,
    /// The error to send back.
    pub error: RpcError,
}

impl MessageError {
    fn invalid_request(id: Option<&RequestId>, message: impl Into<String>) -> Self {
        Self { id: id.cloned(), error: RpcError::new(error_codes::INVALID_REQUEST, message) }
    }
}

impl From<JsonError> for MessageError {
    fn from(error: JsonError) -> Self {
        let told = format!("the message: {error}");
        Self { id: None, error: RpcError::new(error_codes::PARSE_ERROR, told) }
    }
}

/// Nesting levels of a message around the arguments of its call: the message and its `params`.
pub const ARGUMENT_DEPTH: usize = 2;

impl RpcMessage {
    /// Parses one message. A leading byte order mark is skipped.
    ///
    /// # Errors
    /// [`MessageError`] with the position: invalid JSON, a batch, or an invalid `id`, `method` or
    /// `params`.
    pub fn parse(text: impl Into<Bytes>, limits: JsonLimits) -> Result<Self, MessageError> {
        let text = text.into();
        let text = match text.strip_prefix(b"\xEF\xBB\xBF") {
            Some(rest) => text.slice_ref(rest),
            None => text,
        };
        let keys = ["jsonrpc", "id", "method", "params", "result", "error"];
        Json::parse_and_visit(text, limits, keys, |text, found| match text.kind() {
            "object" => Self::from_members(text, found),
            "array" => {
                let told = "batches are not supported; send one message at a time";
                Err(MessageError::invalid_request(None, told))
            }
            kind => Err(MessageError::invalid_request(
                None,
                format!("the message is {kind}; expected an object"),
            )),
        })?
    }

    fn from_members(text: &Json, found: [Option<JsonRef<'_>>; 6]) -> Result<Self, MessageError> {
        let [version, id, method, params, result, error] = found;
        let is_response = method.is_none();
        // A response to an unreadable request carries no id.
        let id = id.filter(|id| !(is_response && id.kind() == "null"));
        let id = id.map(|json| RequestId::from_json_ref(json).ok_or(json)).transpose().map_err(
            |json| {
                let told = format!("`id` is {}; expected a string or a whole number", json.kind());
                MessageError::invalid_request(None, told)
            },
        )?;
        if version.is_none_or(|version| version.as_str() != "\"2.0\"") {
            return Err(MessageError::invalid_request(id.as_ref(), "`jsonrpc` must be \"2.0\""));
        }
        let Some(method) = method else {
            return parse_response(
                id,
                result.map(|it| text.slice_of(it)),
                error.map(|it| text.slice_of(it)),
            );
        };
        let Some(method) = method.string_value().map(Cow::into_owned) else {
            return Err(MessageError::invalid_request(id.as_ref(), "`method` must be a string"));
        };
        let params = params.filter(|params| params.kind() != "null");
        if params.is_some_and(|params| params.kind() != "object") {
            return Err(MessageError::invalid_request(id.as_ref(), "`params` must be an object"));
        }
        let params = params.map(|params| text.slice_of(params));
        Ok(match id {
            Some(id) => Self::Request(RpcRequest { id, method, params }),
            None => Self::Notification(RpcNotification { method, params }),
        })
    }
}

fn parse_response(
    id: Option<RequestId>,
    result: Option<Json>,
    error: Option<Json>,
) -> Result<RpcMessage, MessageError> {
    let result = match (result, error) {
        (Some(result), None) if id.is_some() => Ok(result),
        (None, Some(error)) => Err(parse_error(&error)),
        _ => {
            let told = "neither a request, a notification nor a response";
            return Err(MessageError::invalid_request(id.as_ref(), told));
        }
    };
    Ok(RpcMessage::Response(RpcResponse { id, result }))
}

/// Parses an error object leniently: unreadable members are left out.
fn parse_error(error: &Json) -> RpcError {
    let [code, message, data] = error.pick(["code", "message", "data"]);
    let code = code.and_then(|code| code.decode().ok()).unwrap_or_default();
    let message = message.and_then(|message| message.decode().ok());
    RpcError { code, message: message.unwrap_or_else(|| error.as_str().to_owned()), data }
}

#[cfg(test)]
mod tests {
    use tool::JsonLimits;

    use super::{MessageError, RpcMessage};
    use crate::RequestId;

    fn read(text: &str) -> Result<RpcMessage, MessageError> {
        RpcMessage::parse(text.to_owned(), JsonLimits::DOCUMENT)
    }

    #[test]
    fn what_is_malformed_is_told_with_its_place() {
        for (text, code, told) in [
            ("{", -32_700, "the message: EOF while parsing an object at line 1 column 1"),
            (
                r#"{"id":1,"id":2}"#,
                -32_700,
                "the message: key `id` occurs twice at line 1 column 12",
            ),
            ("[]", -32_600, "batches are not supported; send one message at a time"),
            ("7", -32_600, "the message is number; expected an object"),
            (r#"{"id":1}"#, -32_600, "`jsonrpc` must be \"2.0\""),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                -32_600,
                "`id` is null; expected a string or a whole number",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
                -32_600,
                "`id` is number; expected a string or a whole number",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32_600, "`method` must be a string"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
                -32_600,
                "`params` must be an object",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1}"#,
                -32_600,
                "neither a request, a notification nor a response",
            ),
            (
                r#"{"jsonrpc":"2.0","result":{}}"#,
                -32_600,
                "neither a request, a notification nor a response",
            ),
        ] {
            let error = read(text).unwrap_err().error;
            assert_eq!((error.code, error.message.as_str()), (code, told), "{text}");
        }
        let fault = read(r#"{"jsonrpc":"1.0","id":4,"method":"ping"}"#).unwrap_err();
        assert_eq!(fault.id, Some(RequestId::from_number(4)));
    }

    #[test]
    fn an_error_without_an_id_and_of_an_odd_form_is_still_an_answer() {
        for text in [
            r#"{"jsonrpc":"2.0","error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":"x"}}"#,
        ] {
            let RpcMessage::Response(answer) = read(text).unwrap() else { panic!("an answer") };
            assert_eq!(answer.id, None);
            assert_eq!(answer.result.unwrap_err().code, 0);
        }
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        let text = "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"n\"}";
        assert!(matches!(read(text), Ok(RpcMessage::Notification(_))));
    }
}
