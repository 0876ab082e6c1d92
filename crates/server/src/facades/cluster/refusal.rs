//! What is refused, in spec 4's shape: `{"error": "…"}`.

use axum::Json as Reply;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tool::node::NodeFault;

/// A status and words.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    error: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }

    /// Hidden and unknown are one.
    pub(super) fn no_tool() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Tool not found")
    }
}

impl From<NodeFault> for Refusal {
    fn from(fault: NodeFault) -> Self {
        let status = match &fault {
            NodeFault::Missing => return Self::no_tool(),
            NodeFault::Foreign(_) => StatusCode::FORBIDDEN,
            NodeFault::Taken { .. } => StatusCode::CONFLICT,
            NodeFault::Unfit(_) => StatusCode::BAD_REQUEST,
            NodeFault::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
            // As spec 4's program answers where its database fails.
            NodeFault::Unavailable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, fault.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Reply(json!({ "error": self.error }))).into_response()
    }
}
