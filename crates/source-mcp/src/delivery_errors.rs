//! Errors of message delivery, converted to Toolkeep's error messages.

use std::time::Duration;

use ::mcp::RpcError;
use egress::EgressError;
use tool::executor::DispatchState;
use tool::source::SourceErrorKind;
use tool::{ErrorCode, ExecuteError, SourceName};

use super::connection::DeliveryError;
use super::pipe_connector::ConnectionError;
use tool::display_text::escape_and_truncate;

/// Maximum characters of a transport's own error text.
const MAX_TEXT_CHARS: usize = 300;

/// HTTP request that brought no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct HttpRequestError {
    message: String,
    kind: SourceErrorKind,
    code: ErrorCode,
    dispatch: DispatchState,
    help: Option<String>,
}

impl HttpRequestError {
    fn new(kind: SourceErrorKind, code: ErrorCode, message: String) -> Self {
        Self { message, kind, code, dispatch: DispatchState::MaybeSent, help: None }
    }

    /// The endpoint sent a response that cannot be parsed.
    pub(super) fn malformed(message: String) -> Self {
        Self::new(SourceErrorKind::MalformedReply, ErrorCode::UpstreamFailed, message)
    }

    /// The endpoint reported a failure.
    pub(super) fn failed(message: String) -> Self {
        Self::new(SourceErrorKind::ErrorReply, ErrorCode::UpstreamFailed, message)
    }

    /// The endpoint sent a response above the size limit.
    pub(super) fn too_large(max_bytes: usize) -> Self {
        let message =
            format!("returned more than {max_bytes} bytes; raise `max_message` of the source");
        Self::new(SourceErrorKind::ErrorReply, ErrorCode::TooLarge, message)
    }

    /// The endpoint sent a redirect.
    pub(super) fn redirected(location: &str) -> Self {
        let location = escape_and_truncate(location, MAX_TEXT_CHARS);
        let fix = Some("configure the target address".to_owned());
        Self {
            help: fix,
            ..Self::failed(format!("redirects to `{location}`, which is not followed"))
        }
    }

    /// The endpoint opened no session within the time limit.
    pub(super) fn session_timeout(limit: Duration) -> Self {
        let message = format!("did not answer the handshake within {limit:?}");
        Self::new(SourceErrorKind::TimedOut, ErrorCode::UpstreamLost, message)
    }

    /// The endpoint requires a credential.
    pub(super) fn unauthorized() -> Self {
        let fix = Some("set the required credential in `headers`".to_owned());
        Self { help: fix, ..Self::failed("rejected the request with HTTP 401".to_owned()) }
    }

    /// Creates the error for an endpoint without an available token. The request had no effect: it
    /// was not sent, or was refused.
    pub(super) fn from_token_error(error: oauth_client::TokenError) -> Self {
        let oauth_client::TokenError { kind, code, message, help: fix } = error;
        Self { message, kind, code, dispatch: DispatchState::NotSent, help: fix }
    }

    /// The endpoint limits the request rate and asks for this pause.
    pub(super) fn rate_limited(wait: Option<&str>) -> Self {
        let wait = wait.map(|wait| format!(", retry after {wait}")).unwrap_or_default();
        let message = format!("received too many requests (HTTP 429{wait})");
        Self::new(SourceErrorKind::ErrorReply, ErrorCode::RateLimited, message)
    }

    /// Converts this error to a connection error of the source.
    pub(super) fn into_connection_error(self) -> ConnectionError {
        let Self { message, kind, help: fix, .. } = self;
        ConnectionError { kind, message, help: fix }
    }
}

impl From<EgressError> for HttpRequestError {
    fn from(error: EgressError) -> Self {
        let kind = match &error {
            EgressError::Blocked { .. } => SourceErrorKind::Blocked,
            EgressError::Unreachable { .. }
            | EgressError::Tls { .. }
            | EgressError::InvalidOptions(_) => SourceErrorKind::Unreachable,
            EgressError::TimedOut { .. } => SourceErrorKind::TimedOut,
            EgressError::TooLarge { .. } => SourceErrorKind::ErrorReply,
            EgressError::Protocol { .. } => SourceErrorKind::MalformedReply,
        };
        let code = match &error {
            // The server was reached but sent no complete answer, so it may have executed the
            // request.
            EgressError::Protocol { .. } => ErrorCode::UpstreamLost,
            other => other.error_code(),
        };
        let (sent, message) = (error.dispatch(), error.to_string());
        Self { message, kind, code, dispatch: sent, help: None }
    }
}

/// Describes a JSON-RPC error, truncated.
pub(super) fn describe_rpc_error(error: &RpcError) -> String {
    let message = escape_and_truncate(&error.message, 500);
    match error.code {
        0 => message,
        code => format!("{message} (error {code})"),
    }
}

/// Converts the failure of a list request.
pub(super) fn to_connection_error(method: &str, reason: DeliveryError) -> ConnectionError {
    match reason {
        DeliveryError::TooManyInFlight => ConnectionError::new(
            SourceErrorKind::ErrorReply,
            format!(
                "has too many requests in \
                flight for `{method}`"
            ),
        ),
        DeliveryError::ConnectionClosed | DeliveryError::ConnectionLost => ConnectionError::new(
            SourceErrorKind::Crashed,
            format!(
                "closed the connection during \
                `{method}`"
            ),
        ),
        DeliveryError::Http(fault) => fault.into_connection_error(),
    }
}

/// Converts the delivery failure of a call.
pub(super) fn to_call_error(
    name: &SourceName,
    reason: DeliveryError,
    max_calls: usize,
) -> ExecuteError {
    match reason {
        DeliveryError::TooManyInFlight => {
            let message = format!(
                "the source `{name}` already has {max_calls} calls in flight, the maximum; \
                    try again"
            );
            ExecuteError::not_sent(ErrorCode::Busy, message)
        }
        DeliveryError::ConnectionClosed => {
            let message = format!(
                "the source `{name}` closed the connection before the call was \
                sent"
            );
            ExecuteError::not_sent(ErrorCode::UpstreamLost, message)
        }
        DeliveryError::ConnectionLost => {
            let message = format!("the source `{name}` closed the connection during the call");
            ExecuteError::maybe_sent(ErrorCode::UpstreamLost, message)
        }
        DeliveryError::Http(fault) => {
            let HttpRequestError { message, code, dispatch: sent, help: fix, .. } = fault;
            // The caller may be the one who can supply the credential.
            let fix = fix.filter(|_| code == ErrorCode::CredentialMissing);
            let fix = fix.map(|fix| format!("; {fix}")).unwrap_or_default();
            let message = format!("the source `{name}`: {message}{fix}");
            match sent {
                DispatchState::NotSent => ExecuteError::not_sent(code, message),
                DispatchState::MaybeSent => ExecuteError::maybe_sent(code, message),
            }
        }
    }
}
