//! JSON-RPC messages and errors.

use http::StatusCode;
use serde_json::{Map, Value, json};

/// A JSON-RPC error with its HTTP status.
#[derive(Debug, Clone)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
    /// The HTTP status.
    pub(super) status: StatusCode,
}

impl RpcError {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, status: StatusCode::OK }
    }

    /// An error with HTTP status 400.
    pub(super) fn bad_request(code: i64, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, ..Self::new(code, message) }
    }

    pub(super) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        let status = StatusCode::NOT_FOUND;
        Self { status, ..Self::new(-32601, format!("there is no method `{method}`")) }
    }

    /// The error for a header that differs from the body.
    pub(super) fn header_mismatch(message: impl Into<String>) -> Self {
        Self::bad_request(-32020, message)
    }

    /// The error for a missing client capability.
    pub(super) fn missing_capability(capabilities: &Value) -> Self {
        Self::bad_request(-32021, "this needs a capability that the client did not declare")
            .with_data(json!({ "requiredCapabilities": capabilities }))
    }

    pub(super) fn error_message(&self, id: &Value) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }
}

/// A received JSON-RPC request.
#[derive(Debug, Clone)]
pub(super) struct FixtureRequest {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// A received JSON-RPC message.
#[derive(Debug)]
pub(super) enum FixtureMessage {
    Request(FixtureRequest),
    Notification(String, Map<String, Value>),
    /// The complete message with `result` or `error`.
    Response(Value),
}

impl FixtureMessage {
    /// Parses one JSON-RPC message.
    ///
    /// # Errors
    /// Returns an error for an invalid JSON-RPC message.
    pub(super) fn parse_message(body: &[u8]) -> Result<Self, RpcError> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| RpcError::bad_request(-32700, format!("no JSON: {error}")))?;
        let Some(object) = value.as_object() else {
            return Err(RpcError::bad_request(-32600, "a message is an object"));
        };
        if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(RpcError::bad_request(-32600, "`jsonrpc` is not \"2.0\""));
        }
        let Some(method) = object.get("method").and_then(Value::as_str) else {
            let answers = object.contains_key("result") || object.contains_key("error");
            let fault = RpcError::bad_request(-32600, "neither a request nor a response");
            return if answers { Ok(Self::Response(value)) } else { Err(fault) };
        };
        let params = match object.get("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params.clone(),
            Some(_) => return Err(RpcError::bad_request(-32600, "`params` is no object")),
        };
        let method = method.to_owned();
        match object.get("id") {
            None => Ok(Self::Notification(method, params)),
            Some(id @ (Value::String(_) | Value::Number(_))) => {
                Ok(Self::Request(FixtureRequest { id: id.clone(), method, params }))
            }
            Some(_) => Err(RpcError::bad_request(-32600, "`id` is neither text nor a number")),
        }
    }
}

impl FixtureRequest {
    /// Returns a string parameter.
    pub(super) fn text_param(&self, name: &str) -> Result<&str, RpcError> {
        let found = self.params.get(name).and_then(Value::as_str);
        found.ok_or_else(|| RpcError::invalid_params(format!("`{name}` is missing or no text")))
    }

    /// Returns a member of `_meta`.
    pub(super) fn meta_member(&self, name: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(name)
    }
}

pub(super) fn result_message(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(super) fn notification_message(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}
