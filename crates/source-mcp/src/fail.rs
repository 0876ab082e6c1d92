//! Failures of delivery, as the transports report them, in our own words.

use std::time::Duration;

use ::mcp::RpcError;
use egress::EgressError;
use tool::executor::Sent;
use tool::source::SourceFault;
use tool::{Code, ExecuteError, SourceName};

use super::dial::Fault;
use super::link::Unanswered;
use tool::display_text::shown;

/// Characters of a transport's own text.
const TEXT: usize = 300;

/// An HTTP request that brought no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct HttpFault {
    message: String,
    kind: SourceFault,
    code: Code,
    sent: Sent,
    fix: Option<String>,
}

impl HttpFault {
    fn new(kind: SourceFault, code: Code, message: String) -> Self {
        Self { message, kind, code, sent: Sent::Maybe, fix: None }
    }

    /// It answered, in no form that can be read.
    pub(super) fn malformed(message: String) -> Self {
        Self::new(SourceFault::Malformed, Code::UpstreamFailed, message)
    }

    /// It answered that it failed.
    pub(super) fn failed(message: String) -> Self {
        Self::new(SourceFault::Failed, Code::UpstreamFailed, message)
    }

    /// It answered with too much.
    pub(super) fn too_large(most: usize) -> Self {
        let message =
            format!("answered with more than {most} bytes; raise `max_message` of the source");
        Self::new(SourceFault::Failed, Code::TooLarge, message)
    }

    /// It sent us elsewhere.
    pub(super) fn redirected(to: &str) -> Self {
        let to = shown(to, TEXT);
        let fix = Some("configure the address it really has".to_owned());
        Self { fix, ..Self::failed(format!("redirects to `{to}`, which is not followed")) }
    }

    /// It opened no session in time.
    pub(super) fn late(limit: Duration) -> Self {
        let message = format!("did not answer the handshake within {limit:?}");
        Self::new(SourceFault::TimedOut, Code::UpstreamLost, message)
    }

    /// It wants a credential.
    pub(super) fn unauthorized() -> Self {
        let fix = Some("give the credential it wants in `headers`".to_owned());
        Self { fix, ..Self::failed("refuses us with HTTP 401".to_owned()) }
    }

    /// There is no token for it. Nothing was done: where anything was sent, it was refused.
    pub(super) fn untokened(fault: oauth_client::Fault) -> Self {
        let oauth_client::Fault { kind, code, message, fix } = fault;
        Self { message, kind, code, sent: Sent::No, fix }
    }

    /// It wants to be left alone, for so long.
    pub(super) fn rate_limited(wait: Option<&str>) -> Self {
        let wait = wait.map(|wait| format!(", to be tried again after {wait}")).unwrap_or_default();
        let message = format!("has had too many requests (HTTP 429{wait})");
        Self::new(SourceFault::Failed, Code::RateLimited, message)
    }

    /// As a fault of the source.
    pub(super) fn fault(self) -> Fault {
        let Self { message, kind, fix, .. } = self;
        Fault { kind, message, fix }
    }
}

impl From<EgressError> for HttpFault {
    fn from(error: EgressError) -> Self {
        let kind = match &error {
            EgressError::Blocked { .. } => SourceFault::Blocked,
            EgressError::Unreachable { .. }
            | EgressError::Tls { .. }
            | EgressError::Settings(_) => SourceFault::Unreachable,
            EgressError::TimedOut { .. } => SourceFault::TimedOut,
            EgressError::TooLarge { .. } => SourceFault::Failed,
            EgressError::Protocol { .. } => SourceFault::Malformed,
        };
        let code = match &error {
            // It was reached, and no whole answer came: whatever it was doing is out of sight.
            EgressError::Protocol { .. } => Code::UpstreamLost,
            other => other.code(),
        };
        let (sent, message) = (error.sent(), error.to_string());
        Self { message, kind, code, sent, fix: None }
    }
}

/// A refusal in words, bounded.
pub(super) fn refused(error: &RpcError) -> String {
    let message = shown(&error.message, 500);
    match error.code {
        0 => message,
        code => format!("{message} (error {code})"),
    }
}

/// A list that could not be asked for.
pub(super) fn unasked(method: &str, why: Unanswered) -> Fault {
    match why {
        Unanswered::Full => Fault::new(SourceFault::Failed, format!("has no room for `{method}`")),
        Unanswered::Closed | Unanswered::Lost => {
            Fault::new(SourceFault::Crashed, format!("went away during `{method}`"))
        }
        Unanswered::Undelivered(fault) => fault.fault(),
    }
}

/// A call that has no answer.
pub(super) fn call(name: &SourceName, why: Unanswered, most: usize) -> ExecuteError {
    match why {
        Unanswered::Full => {
            let message = format!("{most} calls are in flight at the source `{name}`; try again");
            ExecuteError::before(Code::Busy, message)
        }
        Unanswered::Closed => {
            let message = format!("the source `{name}` went away before the call was sent");
            ExecuteError::before(Code::UpstreamLost, message)
        }
        Unanswered::Lost => {
            let message = format!("the source `{name}` went away during the call");
            ExecuteError::during(Code::UpstreamLost, message)
        }
        Unanswered::Undelivered(fault) => {
            let HttpFault { message, code, sent, fix, .. } = fault;
            // Who calls may be the one who can do it.
            let fix = fix.filter(|_| code == Code::CredentialMissing);
            let fix = fix.map(|fix| format!("; {fix}")).unwrap_or_default();
            let message = format!("the source `{name}`: {message}{fix}");
            match sent {
                Sent::No => ExecuteError::before(code, message),
                Sent::Maybe => ExecuteError::during(code, message),
            }
        }
    }
}
