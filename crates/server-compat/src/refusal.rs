//! Errors in the format of the cluster tools: `{"error": "…"}`, with `reason` if the text is fixed.

use axum::Json as Reply;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tool::node::NodeFault;

use server_core::error::ApiError;
use server_core::status::status;

/// An error with its status and an optional reason.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    error: String,
    reason: Option<String>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), reason: None }
    }

    /// Adds the reason that the fixed text does not contain.
    pub(crate) fn reason(mut self, reason: String) -> Self {
        self.reason = Some(reason);
        self
    }

    pub(crate) fn into_parts(self) -> (StatusCode, String) {
        (self.status, self.error)
    }

    /// The error for hidden and unknown tools.
    pub(crate) fn no_tool() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Tool not found")
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self::new(status(error.code()), error.message())
    }
}

impl From<NodeFault> for Refusal {
    fn from(fault: NodeFault) -> Self {
        let status = match &fault {
            NodeFault::Missing => return Self::no_tool(),
            NodeFault::Foreign(_) => StatusCode::FORBIDDEN,
            NodeFault::Taken { .. } | NodeFault::Reserved { .. } | NodeFault::Unshared { .. } => {
                StatusCode::CONFLICT
            }
            NodeFault::Unfit(_) => StatusCode::BAD_REQUEST,
            NodeFault::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
            // The status of the original program when its database fails.
            NodeFault::Unavailable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, fault.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut told = json!({ "error": self.error });
        if let (Some(reason), Some(told)) = (self.reason, told.as_object_mut()) {
            told.insert("reason".to_owned(), reason.into());
        }
        (self.status, Reply(told)).into_response()
    }
}
