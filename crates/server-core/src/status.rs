//! The mapping from error codes to HTTP statuses.

use axum::http::StatusCode;
use tool::Code;

/// The HTTP status of an error code.
pub const fn status(code: Code) -> StatusCode {
    match code {
        Code::UnknownTool | Code::NotFound => StatusCode::NOT_FOUND,
        Code::InvalidArguments | Code::InvalidRequest | Code::InvalidConfig => {
            StatusCode::BAD_REQUEST
        }
        Code::Denied
        | Code::ApprovalRequired
        | Code::ApprovalDenied
        | Code::Forbidden
        | Code::ForbiddenOrigin => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::RateLimited | Code::Busy => StatusCode::TOO_MANY_REQUESTS,
        Code::Timeout => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled | Code::Conflict | Code::ApprovalExpired | Code::ApprovalVoid => {
            StatusCode::CONFLICT
        }
        Code::UpstreamFailed | Code::UpstreamLost | Code::Blocked | Code::CredentialMissing => {
            StatusCode::BAD_GATEWAY
        }
        Code::RecordUnavailable | Code::StoreUnavailable | Code::ShuttingDown => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
