//! Failures of delivery, as rmcp and the transports below it report them, in our own words.

use guard::egress::EgressError;
use rmcp::ServiceError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use tool::executor::Sent;
use tool::source::SourceFault;
use tool::{Code, ExecuteError, SourceName};

use super::dial::Fault;
use super::wording::shown;

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
        let message = format!("answered with more than {most} bytes");
        Self::new(SourceFault::Failed, Code::TooLarge, message)
    }

    /// It sent us elsewhere.
    pub(super) fn redirected(to: &str) -> Self {
        let to = shown(to, TEXT);
        let fix = Some("configure the address it really has".to_owned());
        Self { fix, ..Self::failed(format!("redirects to `{to}`, which is not followed")) }
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
        let (code, sent, message) = (error.code(), error.sent(), error.to_string());
        Self { message, kind, code, sent, fix: None }
    }
}

impl From<HttpFault> for StreamableHttpError<HttpFault> {
    fn from(fault: HttpFault) -> Self {
        Self::Client(fault)
    }
}

/// Any failure of a transport.
fn of(error: &DynamicTransportError) -> HttpFault {
    match error.error.downcast_ref::<StreamableHttpError<HttpFault>>() {
        Some(StreamableHttpError::Client(fault)) => fault.clone(),
        Some(StreamableHttpError::AuthRequired(_)) => HttpFault {
            fix: Some("give the credential it wants in `headers`".to_owned()),
            ..HttpFault::failed("refuses us with HTTP 401".to_owned())
        },
        Some(StreamableHttpError::HttpStatus(status)) => {
            let wait = status.retry_after.as_deref().map(|wait| shown(wait, 40));
            let wait =
                wait.map(|wait| format!(", to be tried again after {wait}")).unwrap_or_default();
            let message = format!("has had too many requests (HTTP {}{wait})", status.status);
            HttpFault::new(SourceFault::Failed, Code::RateLimited, message)
        }
        _ => {
            let message = shown(&error.error.to_string(), TEXT);
            HttpFault::new(SourceFault::Unreachable, Code::UpstreamLost, message)
        }
    }
}

/// A transport that failed at the handshake.
pub(super) fn transport(error: &DynamicTransportError) -> Fault {
    let HttpFault { message, kind, fix, .. } = of(error);
    Fault { kind, message, fix }
}

/// A list that could not be asked for.
pub(super) fn undelivered(error: &ServiceError) -> Fault {
    match error {
        ServiceError::TransportSend(error) => transport(error),
        other => Fault::new(SourceFault::Unreachable, shown(&other.to_string(), TEXT)),
    }
}

/// A call that could not be delivered.
pub(super) fn call(name: &SourceName, error: &ServiceError) -> ExecuteError {
    let HttpFault { message, code, sent, .. } = match error {
        ServiceError::TransportSend(error) => of(error),
        other => HttpFault::new(
            SourceFault::Unreachable,
            Code::UpstreamLost,
            shown(&other.to_string(), TEXT),
        ),
    };
    ExecuteError { code, message: format!("the source `{name}`: {message}"), sent }
}
