//! Errors in the format of the cluster tools: `{"error": "…"}`, with `reason` if the text is fixed.

use axum::Json as Reply;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tool::node_registry::NodeError;

use server_core::error::ApiError;
use server_core::http_status::http_status;

/// An error with its status and an optional reason.
#[derive(Debug)]
pub(crate) struct CompatError {
    status: StatusCode,
    error: String,
    reason: Option<String>,
}

impl CompatError {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), reason: None }
    }

    /// Adds the reason that the fixed text does not contain.
    pub(crate) fn with_reason(mut self, reason: String) -> Self {
        self.reason = Some(reason);
        self
    }

    pub(crate) fn into_parts(self) -> (StatusCode, String) {
        (self.status, self.error)
    }

    /// The error for hidden and unknown tools.
    pub(crate) fn tool_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Tool not found")
    }
}

impl From<ApiError> for CompatError {
    fn from(error: ApiError) -> Self {
        Self::new(http_status(error.code()), error.message())
    }
}

impl From<NodeError> for CompatError {
    fn from(fault: NodeError) -> Self {
        let status = match &fault {
            NodeError::NotFound => return Self::tool_not_found(),
            NodeError::NotAuthorized(_) => StatusCode::FORBIDDEN,
            NodeError::NameTaken { .. }
            | NodeError::Reserved { .. }
            | NodeError::NotShared { .. } => StatusCode::CONFLICT,
            NodeError::InvalidDocument(_) => StatusCode::BAD_REQUEST,
            NodeError::LimitReached(_) => StatusCode::INSUFFICIENT_STORAGE,
            // The status of the original program when its database fails.
            NodeError::Unavailable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, fault.to_string())
    }
}

impl IntoResponse for CompatError {
    fn into_response(self) -> Response {
        let mut message = json!({ "error": self.error });
        if let (Some(reason), Some(told)) = (self.reason, message.as_object_mut()) {
            told.insert("reason".to_owned(), reason.into());
        }
        (self.status, Reply(message)).into_response()
    }
}
