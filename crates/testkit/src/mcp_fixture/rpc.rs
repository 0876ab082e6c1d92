//! JSON-RPC messages and errors.

use http::StatusCode;
use serde_json::{Map, Value, json};

/// A JSON-RPC error.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
    /// The HTTP status.
    pub(super) status: StatusCode,
}

impl Fault {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, status: StatusCode::OK }
    }

    /// An error with HTTP status 400.
    pub(super) fn bad(code: i64, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, ..Self::new(code, message) }
    }

    pub(super) fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(super) fn no_method(method: &str) -> Self {
        let status = StatusCode::NOT_FOUND;
        Self { status, ..Self::new(-32601, format!("there is no method `{method}`")) }
    }

    /// The error for a header that differs from the body.
    pub(super) fn mismatch(message: impl Into<String>) -> Self {
        Self::bad(-32020, message)
    }

    /// The error for a missing client capability.
    pub(super) fn needs(capabilities: &Value) -> Self {
        Self::bad(-32021, "this needs a capability that the client did not declare")
            .with(json!({ "requiredCapabilities": capabilities }))
    }

    pub(super) fn message(&self, id: &Value) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }
}

/// A received request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// A received message.
#[derive(Debug)]
pub(super) enum Message {
    Request(Request),
    Notification(String, Map<String, Value>),
    /// The complete message with `result` or `error`.
    Response(Value),
}

impl Message {
    /// # Errors
    /// Returns an error for an invalid JSON-RPC message.
    pub(super) fn read(body: &[u8]) -> Result<Self, Fault> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| Fault::bad(-32700, format!("no JSON: {error}")))?;
        let Some(object) = value.as_object() else {
            return Err(Fault::bad(-32600, "a message is an object"));
        };
        if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(Fault::bad(-32600, "`jsonrpc` is not \"2.0\""));
        }
        let Some(method) = object.get("method").and_then(Value::as_str) else {
            let answers = object.contains_key("result") || object.contains_key("error");
            let fault = Fault::bad(-32600, "neither a request nor a response");
            return if answers { Ok(Self::Response(value)) } else { Err(fault) };
        };
        let params = match object.get("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params.clone(),
            Some(_) => return Err(Fault::bad(-32600, "`params` is no object")),
        };
        let method = method.to_owned();
        match object.get("id") {
            None => Ok(Self::Notification(method, params)),
            Some(id @ (Value::String(_) | Value::Number(_))) => {
                Ok(Self::Request(Request { id: id.clone(), method, params }))
            }
            Some(_) => Err(Fault::bad(-32600, "`id` is neither text nor a number")),
        }
    }
}

impl Request {
    /// Returns a string parameter.
    pub(super) fn text(&self, name: &str) -> Result<&str, Fault> {
        let found = self.params.get(name).and_then(Value::as_str);
        found.ok_or_else(|| Fault::params(format!("`{name}` is missing or no text")))
    }

    /// Returns a member of `_meta`.
    pub(super) fn meta(&self, name: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(name)
    }
}

pub(super) fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(super) fn notification(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}
