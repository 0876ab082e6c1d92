//! One JSON-RPC message, read once: what was checked here is what rmcp reads and what runs.
//!
//! rmcp takes the last of two equal keys, and answers what it cannot read with a wrong status and
//! the names of its types. So what is malformed is refused here, in words, and never gets there.

use axum::Json as Reply;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use formats::CallsError;
use serde::Serialize;
use tool::{Json, Limits};

const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;
const INVALID_PARAMS: i32 = -32_602;

/// A message of a client.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) method: String,
    /// The request's id as canonical JSON; `None` for a notification.
    pub(super) id: Option<String>,
    /// The call, where it asks for one, or why it cannot be told.
    pub(super) call: Option<Result<Called, CallsError>>,
    params: Option<Json>,
}

/// What a `tools/call` asks for.
#[derive(Debug, Clone)]
pub(super) struct Called {
    /// As the model wrote it: a name or an alias.
    pub(super) name: String,
    /// The bytes as they came: rmcp's reading of them would change numbers.
    pub(super) args: Json,
}

/// A message that cannot be taken.
#[derive(Debug, Serialize)]
pub(super) struct Fault {
    jsonrpc: &'static str,
    id: Option<Json>,
    error: Told,
}

#[derive(Debug, Serialize)]
struct Told {
    code: i32,
    message: String,
}

impl Fault {
    fn new(id: Option<&Json>, code: i32, message: impl Into<String>) -> Self {
        let error = Told { code, message: message.into() };
        Self { jsonrpc: "2.0", id: id.cloned(), error }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        (StatusCode::BAD_REQUEST, Reply(self)).into_response()
    }
}

impl Message {
    /// Reads the envelope.
    ///
    /// # Errors
    /// [`Fault`] with the place.
    pub(super) fn read(text: Bytes) -> Result<Self, Fault> {
        let text = Json::check(text, Limits::DOCUMENT)
            .map_err(|error| Fault::new(None, PARSE_ERROR, format!("the body: {error}")))?;
        let bad = |id: Option<&Json>, message: String| Fault::new(id, INVALID_REQUEST, message);
        match text.kind() {
            "object" => {}
            "array" => {
                return Err(bad(None, "batches are not taken; send one message at a time".into()));
            }
            found => return Err(bad(None, format!("the body is {found}; expected an object"))),
        }
        let raw_id = text.get("id");
        let id = raw_id.as_ref().map(|id| canonical_id(id).ok_or(id.kind())).transpose();
        let id = id.map_err(|found| {
            bad(None, format!("`id` is {found}; expected a string or a whole number"))
        })?;
        let bad = |message: &str| bad(raw_id.as_ref(), message.to_owned());
        let word = |key: &str| text.get(key).and_then(|json| json.read::<String>().ok());
        if word("jsonrpc").as_deref() != Some("2.0") {
            return Err(bad("`jsonrpc` must be \"2.0\""));
        }
        let Some(method) = word("method") else {
            return Err(bad("`method` must be a string; this server takes no responses"));
        };
        let params = text.get("params").filter(|params| params.kind() != "null");
        if params.as_ref().is_some_and(|params| params.kind() != "object") {
            return Err(bad("`params` must be an object"));
        }
        if let Some(found) = params.as_ref().filter(|_| method == "tools/list").and_then(not_a_page)
        {
            // rmcp would take it for none, and give the first page for ever.
            let told = format!("`params.cursor` is {found}; expected a string");
            return Err(Fault::new(raw_id.as_ref(), INVALID_PARAMS, told));
        }
        let call = (method == "tools/call").then(|| Called::read(params.as_ref()));
        Ok(Self { method, id, call, params })
    }

    /// The id of the request that this message cancels.
    pub(super) fn cancels(&self) -> Option<String> {
        let cancels = self.method == "notifications/cancelled" && self.id.is_none();
        self.params.as_ref().filter(|_| cancels)?.get("requestId").as_ref().and_then(canonical_id)
    }
}

impl Called {
    fn read(params: Option<&Json>) -> Result<Self, CallsError> {
        let member = |key: &str| params.and_then(|params| params.get(key));
        let name = member("name");
        let found = name.as_ref().map_or("missing", Json::kind).to_owned();
        let name = name.and_then(|name| name.read::<String>().ok());
        let path = "params.name".to_owned();
        let name = name.ok_or(CallsError::Shape { path, found, expected: "a string" })?;
        let args = member("arguments").filter(|args| args.kind() != "null");
        Ok(Self { name, args: args.unwrap_or_else(Json::empty) })
    }
}

/// What stands where the cursor should.
fn not_a_page(params: &Json) -> Option<&'static str> {
    let cursor = params.get("cursor")?;
    (!matches!(cursor.kind(), "string" | "null")).then(|| cursor.kind())
}

/// `1` and `"1"` are two ids; `"a"` and its escaped form are one.
fn canonical_id(id: &Json) -> Option<String> {
    match id.kind() {
        "string" => id.read::<String>().ok().map(|text| Json::of(&text).as_str().to_owned()),
        "number" => id.read::<i64>().ok().map(|number| number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, Message};

    fn read(text: &str) -> Result<Message, Fault> {
        Message::read(text.to_owned().into())
    }

    #[test]
    fn what_is_malformed_is_told_with_its_place() {
        for (text, code, told) in [
            ("{", -32_700, "the body: EOF while parsing an object at line 1 column 1"),
            (r#"{"id":1,"id":2}"#, -32_700, "the body: key `id` occurs twice at line 1 column 12"),
            ("[]", -32_600, "batches are not taken; send one message at a time"),
            ("7", -32_600, "the body is number; expected an object"),
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
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
                -32_600,
                "`method` must be a string; this server takes no responses",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
                -32_600,
                "`params` must be an object",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":5}}"#,
                -32_602,
                "`params.cursor` is number; expected a string",
            ),
        ] {
            let error = read(text).unwrap_err().error;
            assert_eq!((error.code, error.message.as_str()), (code, told), "{text}");
        }
        let fault = read(r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#).unwrap_err();
        assert_eq!(fault.id.unwrap().as_str(), "\"a\"");
    }

    #[test]
    fn arguments_are_the_bytes_as_they_came() {
        let call = |params: &str| {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            read(&text).unwrap().call.unwrap()
        };
        let called = call(r#"{"name":"a","arguments":{"n": 1.0, "big": 12345678901234567890123}}"#);
        let called = called.unwrap();
        assert_eq!(called.args.as_str(), r#"{"n": 1.0, "big": 12345678901234567890123}"#);
        assert_eq!(call(r#"{"name":"a"}"#).unwrap().args.as_str(), "{}");
        assert_eq!(call(r#"{"name":"a","arguments":null}"#).unwrap().args.as_str(), "{}");
        for (params, found) in [("{}", "missing"), (r#"{"name":5}"#, "number")] {
            let told = format!("`params.name` is {found}; expected a string");
            assert_eq!(call(params).unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn a_cancel_names_its_request() {
        let cancels = |id: &str| {
            let text = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            );
            read(&text).unwrap().cancels()
        };
        assert_eq!(cancels("7").as_deref(), Some("7"));
        assert_eq!(cancels(r#""7""#).as_deref(), Some("\"7\""));
        assert_eq!(cancels(r#""\u0061""#), cancels(r#""a""#));
        assert_eq!(cancels("{}"), None);
        assert_eq!(read(r#"{"jsonrpc":"2.0","method":"ping"}"#).unwrap().cancels(), None);
    }
}
