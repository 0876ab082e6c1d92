//! The error response of the REST API.

use axum::Json;
use axum::http::HeaderValue;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use identity::Right;
use schemars::JsonSchema;
use serde::Serialize;
use tool::outcome::Failure;
use tool::{CallId, Code};

use crate::status::status;

/// `{"error": {"code", "message", "fix", "call_id"}}`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ApiError {
    error: Envelope,
    /// The same in the words of spec 0, on its routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
    /// What `WWW-Authenticate` says.
    #[serde(skip)]
    challenge: Option<Box<str>>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Envelope {
    /// One word; `toolkeep error CODE` tells more.
    #[schemars(with = "String")]
    code: Code,
    /// What is wrong, in words.
    message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    /// The call, where there was one: it is on record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    call_id: Option<CallId>,
}

impl ApiError {
    /// Creates an error from a code and a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let error = Envelope { code, message: message.into(), fix: None, call_id: None };
        Self { error, detail: None, challenge: None }
    }

    /// The error for a key without a required right, with how to get it.
    pub fn lacks(right: Right) -> Self {
        Self::new(Code::Forbidden, format!("the key lacks the right `{right}`")).fix(right.remedy())
    }

    /// Adds a remedy.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.error.fix = Some(fix.into());
        self
    }

    /// Adds the error text of the compatibility interface.
    #[must_use]
    pub fn detail(mut self, detail: &'static str) -> Self {
        self.detail = Some(detail);
        self
    }

    /// Sets the `WWW-Authenticate` challenge.
    #[must_use]
    pub(crate) fn challenge(mut self, value: String) -> Self {
        self.challenge = Some(value.into());
        self
    }

    /// Creates the error of a failed call, with its id.
    pub fn of(call: CallId, failure: Failure) -> Self {
        let mut error = Self::new(failure.code, failure.message);
        error.error.call_id = Some(call);
        error
    }

    /// The error message.
    pub fn message(&self) -> &str {
        &self.error.message
    }

    /// The error code.
    pub fn code(&self) -> Code {
        self.error.code
    }
}

impl From<tool::LedgerError> for ApiError {
    fn from(error: tool::LedgerError) -> Self {
        Self::new(Code::RecordUnavailable, error.message)
    }
}

impl From<tool::StoreError> for ApiError {
    fn from(error: tool::StoreError) -> Self {
        let code = match error {
            tool::StoreError::Conflict { .. } => Code::Conflict,
            tool::StoreError::Unavailable(_) => Code::StoreUnavailable,
        };
        Self::new(code, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (code, challenge) = (self.error.code, self.challenge.clone());
        let mut response = (status(code), Json(self)).into_response();
        let header = match code {
            Code::Unauthenticated => Some((WWW_AUTHENTICATE, "Bearer realm=\"toolkeep\"")),
            Code::Busy | Code::RateLimited => Some((RETRY_AFTER, "1")),
            _ => None,
        };
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        let challenge = challenge.and_then(|value| HeaderValue::from_str(&value).ok());
        if let Some(value) = challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
        response
    }
}
