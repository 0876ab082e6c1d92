//! Error of a source that has no usable token.

use egress::EgressError;
use tool::source::SourceErrorKind;
use tool::{ErrorCode, Problem, SourceName};

use tool::display_text::escape_and_truncate;

/// Error: the source has no usable token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenError {
    /// Error kind for the source.
    pub kind: SourceErrorKind,
    /// Error code for a call.
    pub code: ErrorCode,
    /// Error text, as a predicate that follows the name of the source.
    pub message: String,
    /// Suggested action, if one is known.
    pub help: Option<String>,
}

impl TokenError {
    fn new(kind: SourceErrorKind, code: ErrorCode, message: impl Into<String>) -> Self {
        Self { kind, code, message: message.into(), help: None }
    }

    /// Adds a suggested action.
    pub(super) fn with_help(self, fix: impl Into<String>) -> Self {
        Self { help: Some(fix.into()), ..self }
    }

    /// Creates the error for a login that is required.
    pub(super) fn login_required(source: &SourceName, reason: &str) -> Self {
        Self::new(SourceErrorKind::ErrorReply, ErrorCode::CredentialMissing, reason)
            .with_help(format!("run `toolkeep source login {source}`"))
    }

    /// Creates the error for a rejected request.
    pub(super) fn request_refused(message: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::ErrorReply, ErrorCode::UpstreamFailed, message)
    }

    /// Creates the error for a provider that is shutting down.
    pub(super) fn closed() -> Self {
        Self::request_refused("is stopping and requests no more tokens")
    }

    /// Creates the error for a malformed response.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::MalformedReply, ErrorCode::UpstreamFailed, message)
    }

    /// Creates the error for an address that must not be contacted.
    pub(super) fn blocked(message: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::Blocked, ErrorCode::Blocked, message)
    }

    /// Creates the error for a timeout.
    pub(super) fn timed_out(message: impl Into<String>) -> Self {
        Self::new(SourceErrorKind::TimedOut, ErrorCode::UpstreamFailed, message)
    }

    /// Creates the error for an unavailable store.
    pub(super) fn store_failed(error: &tool::StoreError) -> Self {
        let message = format!(
            "cannot read its credentials, because the store is unavailable: \
            {error}"
        );
        Self::new(SourceErrorKind::ErrorReply, ErrorCode::StoreUnavailable, message)
    }

    /// Creates the error for a failed request to `target`.
    pub(super) fn unreachable(target: &str, error: &EgressError) -> Self {
        let kind = match error {
            EgressError::Blocked { .. } => SourceErrorKind::Blocked,
            EgressError::TimedOut { .. } => SourceErrorKind::TimedOut,
            EgressError::Protocol { .. } | EgressError::TooLarge { .. } => {
                SourceErrorKind::MalformedReply
            }
            EgressError::Unreachable { .. }
            | EgressError::Tls { .. }
            | EgressError::InvalidOptions(_) => SourceErrorKind::Unreachable,
        };
        let code = if kind == SourceErrorKind::Blocked {
            ErrorCode::Blocked
        } else {
            ErrorCode::UpstreamFailed
        };
        Self::new(kind, code, format!("{target}: {}", escape_and_truncate(&error.to_string(), 300)))
    }

    /// Converts the error to a problem at `location`.
    pub(super) fn into_problem(self, location: &str) -> Problem {
        Problem { location: location.to_owned(), message: self.message, help: self.help }
    }
}
