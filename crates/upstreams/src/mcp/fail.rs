//! Failures of delivery, as rmcp and the transports below it report them, in our own words.

use rmcp::ServiceError;
use tool::executor::Sent;
use tool::source::SourceFault;
use tool::{Code, ExecuteError, SourceName};

use super::dial::Fault;
use super::wording::shown;

/// Characters of a transport's own text.
const TEXT: usize = 300;

/// A list that could not be asked for.
pub(super) fn undelivered(error: &ServiceError) -> Fault {
    Fault::new(SourceFault::Unreachable, format!("could not be asked: {}", text(error)))
}

/// A call that could not be delivered.
pub(super) fn call(name: &SourceName, error: &ServiceError) -> ExecuteError {
    let message = format!("the call did not reach the source `{name}`: {}", text(error));
    ExecuteError { code: Code::UpstreamLost, message, sent: Sent::Maybe }
}

fn text(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => shown(&error.error.to_string(), TEXT),
        other => shown(&other.to_string(), TEXT),
    }
}
