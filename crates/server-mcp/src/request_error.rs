//! JSON-RPC errors with the HTTP status they are sent with.

use http::StatusCode;
use mcp::{RequestId, RpcError, error_codes};

use super::response_body::{self, McpResponse};

/// A JSON-RPC error with its HTTP status.
#[derive(Debug)]
pub(crate) struct RequestError {
    pub(crate) status: StatusCode,
    pub(crate) error: RpcError,
}

impl RequestError {
    pub(crate) fn new(status: StatusCode, code: i64, message: impl Into<String>) -> Self {
        Self { status, error: RpcError::new(code, message) }
    }

    /// An error for invalid params.
    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(StatusCode::OK, error_codes::INVALID_PARAMS, message)
    }

    /// An error for a malformed request, with status 400.
    pub(crate) fn bad_request(code: i64, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// An internal error of this server.
    pub(crate) fn internal_error(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error_codes::INTERNAL_ERROR, message)
    }

    /// An error for a caller that exceeded a limit, with status 429.
    pub(crate) fn too_many_requests(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, error_codes::INVALID_REQUEST, message)
    }

    pub(crate) fn to_response(&self, id: Option<&RequestId>) -> McpResponse {
        response_body::json_response(self.status, mcp::encode::encode_error(id, &self.error))
    }
}
