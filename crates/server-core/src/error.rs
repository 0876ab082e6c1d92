//! The error response of the REST API.

use axum::Json;
use axum::http::HeaderValue;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use identity::Right;
use schemars::JsonSchema;
use serde::Serialize;
use tool::call_outcome::CallFailure;
use tool::{CallId, ErrorCode};

use crate::http_status::http_status;

/// An error response: `{"error": {"code", "message", "fix", "call_id"}}`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ApiError {
    error: ErrorBody,
    /// Error text in the module API's format, on its routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
    /// Value of the `WWW-Authenticate` header.
    #[serde(skip)]
    challenge: Option<Box<str>>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ErrorBody {
    /// Error code; `toolkeep error CODE` explains it.
    #[schemars(with = "String")]
    code: ErrorCode,
    /// Error message for people.
    message: String,
    /// Advice on how to fix the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    /// ID of the recorded call, if the error belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    call_id: Option<CallId>,
}

impl ApiError {
    /// Creates an error from a code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let error = ErrorBody { code, message: message.into(), fix: None, call_id: None };
        Self { error, detail: None, challenge: None }
    }

    /// The error for a key without a required right, with how to get it.
    pub fn missing_right(right: Right) -> Self {
        Self::new(ErrorCode::Forbidden, format!("the key lacks the right `{right}`"))
            .with_help(right.remedy())
    }

    /// Adds advice on how to fix the error.
    #[must_use]
    pub fn with_help(mut self, fix: impl Into<String>) -> Self {
        self.error.fix = Some(fix.into());
        self
    }

    /// Adds the error text of the compatibility interface.
    #[must_use]
    pub fn with_detail(mut self, detail: &'static str) -> Self {
        self.detail = Some(detail);
        self
    }

    /// Sets the `WWW-Authenticate` challenge.
    #[must_use]
    pub(crate) fn with_challenge(mut self, value: String) -> Self {
        self.challenge = Some(value.into());
        self
    }

    /// Creates the error of a failed call, with its id.
    pub fn from_failure(call: CallId, failure: CallFailure) -> Self {
        let mut error = Self::new(failure.code, failure.message);
        error.error.call_id = Some(call);
        error
    }

    /// Returns the error message.
    pub fn message(&self) -> &str {
        &self.error.message
    }

    /// Returns the advice on how to fix the error.
    pub fn help(&self) -> Option<&str> {
        self.error.fix.as_deref()
    }

    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        self.error.code
    }
}

impl From<tool::LedgerError> for ApiError {
    fn from(error: tool::LedgerError) -> Self {
        Self::new(ErrorCode::RecordUnavailable, error.message)
    }
}

impl From<tool::StoreError> for ApiError {
    fn from(error: tool::StoreError) -> Self {
        let code = match error {
            tool::StoreError::Conflict { .. } => ErrorCode::Conflict,
            tool::StoreError::Unavailable(_) => ErrorCode::StoreUnavailable,
        };
        Self::new(code, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (code, challenge) = (self.error.code, self.challenge.clone());
        let mut response = (http_status(code), Json(self)).into_response();
        let header = match code {
            ErrorCode::Unauthenticated => Some((WWW_AUTHENTICATE, "Bearer realm=\"toolkeep\"")),
            ErrorCode::Busy | ErrorCode::RateLimited => Some((RETRY_AFTER, "1")),
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
