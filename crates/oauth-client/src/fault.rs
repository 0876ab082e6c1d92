//! Error of a source that has no usable token.

use egress::EgressError;
use tool::source::SourceFault;
use tool::{Code, Problem, SourceName};

use tool::display_text::shown;

/// Error: the source has no usable token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Error kind for the source.
    pub kind: SourceFault,
    /// Error code for a call.
    pub code: Code,
    /// Error text, as a predicate that follows the name of the source.
    pub message: String,
    /// Suggested action, if one is known.
    pub fix: Option<String>,
}

impl Fault {
    fn new(kind: SourceFault, code: Code, message: impl Into<String>) -> Self {
        Self { kind, code, message: message.into(), fix: None }
    }

    /// Adds a suggested action.
    pub(super) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    /// Creates the error for a login that is required.
    pub(super) fn consent(source: &SourceName, why: &str) -> Self {
        Self::new(SourceFault::Failed, Code::CredentialMissing, why)
            .fix(format!("run `toolkeep source login {source}`"))
    }

    /// Creates the error for a rejected request.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::new(SourceFault::Failed, Code::UpstreamFailed, message)
    }

    /// Creates the error for a malformed response.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(SourceFault::Malformed, Code::UpstreamFailed, message)
    }

    /// Creates the error for an address that must not be contacted.
    pub(super) fn blocked(message: impl Into<String>) -> Self {
        Self::new(SourceFault::Blocked, Code::Blocked, message)
    }

    /// Creates the error for a timeout.
    pub(super) fn late(message: impl Into<String>) -> Self {
        Self::new(SourceFault::TimedOut, Code::UpstreamFailed, message)
    }

    /// Creates the error for an unavailable store.
    pub(super) fn store(error: &tool::StoreError) -> Self {
        let message = format!("has its credentials in a store that does not answer: {error}");
        Self::new(SourceFault::Failed, Code::StoreUnavailable, message)
    }

    /// Creates the error for a failed request to `what`.
    pub(super) fn unreachable(what: &str, error: &EgressError) -> Self {
        let kind = match error {
            EgressError::Blocked { .. } => SourceFault::Blocked,
            EgressError::TimedOut { .. } => SourceFault::TimedOut,
            EgressError::Protocol { .. } | EgressError::TooLarge { .. } => SourceFault::Malformed,
            EgressError::Unreachable { .. }
            | EgressError::Tls { .. }
            | EgressError::Settings(_) => SourceFault::Unreachable,
        };
        let code = if kind == SourceFault::Blocked { Code::Blocked } else { Code::UpstreamFailed };
        Self::new(kind, code, format!("{what}: {}", shown(&error.to_string(), 300)))
    }

    /// Converts the error to a problem at `place`.
    pub(super) fn problem(self, place: &str) -> Problem {
        Problem { place: place.to_owned(), message: self.message, fix: self.fix }
    }
}
