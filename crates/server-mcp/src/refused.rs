//! JSON-RPC errors with the HTTP status they are sent with.

use http::StatusCode;
use mcp::{Id, RpcError, code};

use super::body::{self, Reply};

/// A JSON-RPC error with its HTTP status.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) error: RpcError,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, code: i64, message: impl Into<String>) -> Self {
        Self { status, error: RpcError::new(code, message) }
    }

    /// An error for invalid params.
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(StatusCode::OK, code::INVALID_PARAMS, message)
    }

    /// An error for a malformed request, with status 400.
    pub(crate) fn bad(code: i64, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// An internal error of this server.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL_ERROR, message)
    }

    /// An error for a caller that exceeded a limit, with status 429.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, code::INVALID_REQUEST, message)
    }

    pub(crate) fn reply(&self, id: Option<&Id>) -> Reply {
        body::json(self.status, mcp::write::error(id, &self.error))
    }
}
