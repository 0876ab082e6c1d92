//! The mapping from error codes to HTTP statuses.

use axum::http::StatusCode;
use tool::ErrorCode;

/// The HTTP status of an error code.
pub const fn http_status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::UnknownTool | ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::InvalidArguments | ErrorCode::InvalidRequest | ErrorCode::InvalidConfig => {
            StatusCode::BAD_REQUEST
        }
        ErrorCode::Denied
        | ErrorCode::ApprovalRequired
        | ErrorCode::ApprovalDenied
        | ErrorCode::Forbidden
        | ErrorCode::ForbiddenOrigin => StatusCode::FORBIDDEN,
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::RateLimited | ErrorCode::Busy => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode::Cancelled
        | ErrorCode::Conflict
        | ErrorCode::ApprovalExpired
        | ErrorCode::ApprovalVoid => StatusCode::CONFLICT,
        ErrorCode::UpstreamFailed
        | ErrorCode::UpstreamLost
        | ErrorCode::Blocked
        | ErrorCode::CredentialMissing => StatusCode::BAD_GATEWAY,
        ErrorCode::RecordUnavailable | ErrorCode::StoreUnavailable | ErrorCode::ShuttingDown => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
