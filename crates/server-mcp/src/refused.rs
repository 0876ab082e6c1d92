//! Requests that are answered with an error.

use http::StatusCode;
use mcp::{Id, RpcError, code};

use super::body::{self, Reply};

/// An error, and the status it goes out with.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) error: RpcError,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, code: i64, message: impl Into<String>) -> Self {
        Self { status, error: RpcError::new(code, message) }
    }

    /// The params do not fit.
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(StatusCode::OK, code::INVALID_PARAMS, message)
    }

    /// A request that is wrong as a whole.
    pub(crate) fn bad(code: i64, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// A fault of ours.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL_ERROR, message)
    }

    /// This caller has too many of something.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, code::INVALID_REQUEST, message)
    }

    pub(crate) fn reply(&self, id: Option<&Id>) -> Reply {
        body::json(self.status, mcp::write::error(id, &self.error))
    }
}
