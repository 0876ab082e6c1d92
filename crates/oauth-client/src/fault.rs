//! Why there is no token, in words.

use egress::EgressError;
use tool::source::SourceFault;
use tool::{Code, Problem, SourceName};

use tool::display_text::shown;

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What it means for the source.
    pub kind: SourceFault,
    /// What it means for a call.
    pub code: Code,
    /// To follow the name of the source.
    pub message: String,
    /// What to do.
    pub fix: Option<String>,
}

impl Fault {
    fn new(kind: SourceFault, code: Code, message: impl Into<String>) -> Self {
        Self { kind, code, message: message.into(), fix: None }
    }

    /// With what to do.
    pub(super) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    /// A person has to agree first.
    pub(super) fn consent(source: &SourceName, why: &str) -> Self {
        Self::new(SourceFault::Failed, Code::CredentialMissing, why)
            .fix(format!("run `toolkeep source login {source}`"))
    }

    /// Somebody said no.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::new(SourceFault::Failed, Code::UpstreamFailed, message)
    }

    /// What was answered cannot be used.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(SourceFault::Malformed, Code::UpstreamFailed, message)
    }

    /// It is not to be asked.
    pub(super) fn blocked(message: impl Into<String>) -> Self {
        Self::new(SourceFault::Blocked, Code::Blocked, message)
    }

    /// It took too long.
    pub(super) fn late(message: impl Into<String>) -> Self {
        Self::new(SourceFault::TimedOut, Code::UpstreamFailed, message)
    }

    /// What is kept cannot be read or written.
    pub(super) fn store(error: &tool::StoreError) -> Self {
        let message = format!("has its credentials in a store that does not answer: {error}");
        Self::new(SourceFault::Failed, Code::StoreUnavailable, message)
    }

    /// No answer of an address, which is told.
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

    /// As a problem at `place`.
    pub(super) fn problem(self, place: &str) -> Problem {
        Problem { place: place.to_owned(), message: self.message, fix: self.fix }
    }
}
