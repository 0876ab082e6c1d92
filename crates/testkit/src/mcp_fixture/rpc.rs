//! JSON-RPC: faults, and messages made of parts.

use http::StatusCode;
use serde_json::{Map, Value, json};

/// Why a request is not answered with a result.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
    /// What HTTP says beside it.
    pub(super) status: StatusCode,
}

impl Fault {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, status: StatusCode::OK }
    }

    /// A fault that HTTP calls a bad request, too.
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

    /// Header and body disagree.
    pub(super) fn mismatch(message: impl Into<String>) -> Self {
        Self::bad(-32020, message)
    }

    /// The caller has not declared what this needs.
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

/// A request that came in.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// What one message is.
#[derive(Debug)]
pub(super) enum Message {
    Request(Request),
    Notification(String, Map<String, Value>),
    /// The whole message; it has `result` or `error`.
    Response(Value),
}

impl Message {
    /// # Errors
    /// Where it is no message of JSON-RPC.
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
    /// A text of the params.
    pub(super) fn text(&self, name: &str) -> Result<&str, Fault> {
        let found = self.params.get(name).and_then(Value::as_str);
        found.ok_or_else(|| Fault::params(format!("`{name}` is missing or no text")))
    }

    /// A member of `_meta`.
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
