//! A JSON-RPC message, parsed once: the validated bytes are the ones that are forwarded and
//! executed.

use std::borrow::Cow;

use bytes::Bytes;
use json::Look;
use tool::{Json, JsonError, Limits};

use crate::{Id, code};

/// A JSON-RPC message: request, notification or response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A message that expects a response.
    Request(Request),
    /// A message without a response.
    Notification(Notification),
    /// The response to a request.
    Response(Response),
}

/// A JSON-RPC request with its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The id that the response repeats.
    pub id: Id,
    /// Name of the requested method.
    pub method: String,
    /// Parameter object, as received.
    pub params: Option<Json>,
}

/// A JSON-RPC notification, which has no id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Name of the notification's method.
    pub method: String,
    /// Parameter object, as received.
    pub params: Option<Json>,
}

/// A JSON-RPC response with result or error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Id of the request; `None` only for an error that names no request.
    pub id: Option<Id>,
    /// Result or error, as received.
    pub result: Result<Json, RpcError>,
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// Error code; see [`code`].
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
pub struct Fault {
    /// Id of the message, if it could be read.
    pub id: Option<Id>,
    /// The error to send back.
    pub error: RpcError,
}

impl Fault {
    fn invalid(id: Option<&Id>, message: impl Into<String>) -> Self {
        Self { id: id.cloned(), error: RpcError::new(code::INVALID_REQUEST, message) }
    }
}

impl From<JsonError> for Fault {
    fn from(error: JsonError) -> Self {
        let told = format!("the message: {error}");
        Self { id: None, error: RpcError::new(code::PARSE_ERROR, told) }
    }
}

/// Nesting levels of a message around the arguments of its call: the message and its `params`.
pub const AROUND_ARGUMENTS: usize = 2;

impl Message {
    /// Parses one message. A leading byte order mark is skipped.
    ///
    /// # Errors
    /// [`Fault`] with the position: invalid JSON, a batch, or an invalid `id`, `method` or
    /// `params`.
    pub fn read(text: impl Into<Bytes>, limits: Limits) -> Result<Self, Fault> {
        let text = text.into();
        let text = match text.strip_prefix(b"\xEF\xBB\xBF") {
            Some(rest) => text.slice_ref(rest),
            None => text,
        };
        let keys = ["jsonrpc", "id", "method", "params", "result", "error"];
        Json::check_and_read(text, limits, keys, |text, found| match text.kind() {
            "object" => Self::of(text, found),
            "array" => {
                let told = "batches are not taken; send one message at a time";
                Err(Fault::invalid(None, told))
            }
            kind => Err(Fault::invalid(None, format!("the message is {kind}; expected an object"))),
        })?
    }

    fn of(text: &Json, found: [Option<Look<'_>>; 6]) -> Result<Self, Fault> {
        let [version, id, method, params, result, error] = found;
        let answers = method.is_none();
        // A response to an unreadable request carries no id.
        let id = id.filter(|id| !(answers && id.kind() == "null"));
        let id = id.map(|json| Id::of(json).ok_or(json)).transpose().map_err(|json| {
            let told = format!("`id` is {}; expected a string or a whole number", json.kind());
            Fault::invalid(None, told)
        })?;
        if version.is_none_or(|version| version.as_str() != "\"2.0\"") {
            return Err(Fault::invalid(id.as_ref(), "`jsonrpc` must be \"2.0\""));
        }
        let Some(method) = method else {
            return answer(id, result.map(|it| text.share(it)), error.map(|it| text.share(it)));
        };
        let Some(method) = method.text().map(Cow::into_owned) else {
            return Err(Fault::invalid(id.as_ref(), "`method` must be a string"));
        };
        let params = params.filter(|params| params.kind() != "null");
        if params.is_some_and(|params| params.kind() != "object") {
            return Err(Fault::invalid(id.as_ref(), "`params` must be an object"));
        }
        let params = params.map(|params| text.share(params));
        Ok(match id {
            Some(id) => Self::Request(Request { id, method, params }),
            None => Self::Notification(Notification { method, params }),
        })
    }
}

fn answer(id: Option<Id>, result: Option<Json>, error: Option<Json>) -> Result<Message, Fault> {
    let result = match (result, error) {
        (Some(result), None) if id.is_some() => Ok(result),
        (None, Some(error)) => Err(refusal(&error)),
        _ => {
            let told = "neither a request, a notification nor an answer";
            return Err(Fault::invalid(id.as_ref(), told));
        }
    };
    Ok(Message::Response(Response { id, result }))
}

/// Parses an error object leniently: unreadable members are left out.
fn refusal(error: &Json) -> RpcError {
    let [code, message, data] = error.pick(["code", "message", "data"]);
    let code = code.and_then(|code| code.read().ok()).unwrap_or_default();
    let message = message.and_then(|message| message.read().ok());
    RpcError { code, message: message.unwrap_or_else(|| error.as_str().to_owned()), data }
}

#[cfg(test)]
mod tests {
    use tool::Limits;

    use super::{Fault, Message};
    use crate::Id;

    fn read(text: &str) -> Result<Message, Fault> {
        Message::read(text.to_owned(), Limits::DOCUMENT)
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
            ("[]", -32_600, "batches are not taken; send one message at a time"),
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
                "neither a request, a notification nor an answer",
            ),
            (
                r#"{"jsonrpc":"2.0","result":{}}"#,
                -32_600,
                "neither a request, a notification nor an answer",
            ),
        ] {
            let error = read(text).unwrap_err().error;
            assert_eq!((error.code, error.message.as_str()), (code, told), "{text}");
        }
        let fault = read(r#"{"jsonrpc":"1.0","id":4,"method":"ping"}"#).unwrap_err();
        assert_eq!(fault.id, Some(Id::number(4)));
    }

    #[test]
    fn an_error_without_an_id_and_of_an_odd_form_is_still_an_answer() {
        for text in [
            r#"{"jsonrpc":"2.0","error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":"x"}}"#,
        ] {
            let Message::Response(answer) = read(text).unwrap() else { panic!("an answer") };
            assert_eq!(answer.id, None);
            assert_eq!(answer.result.unwrap_err().code, 0);
        }
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        let text = "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"n\"}";
        assert!(matches!(read(text), Ok(Message::Notification(_))));
    }
}
