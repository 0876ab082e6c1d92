//! Mapping of node responses and gRPC statuses to outcomes and errors.

use bytes::Bytes;
use tonic::{ConnectError, Status, TimeoutExpired};
use tool::{ErrorCode, ExecuteError, Json, JsonLimits, Outcome};

/// Maximum size of an error message, in bytes.
const MAX_ERROR_BYTES: usize = 4 << 10;
/// The start of a Python traceback, which nodes of the cluster tools append to their errors.
const PYTHON_TRACEBACK_START: &str = "Traceback (most recent call last)";

/// Converts the output of a tool to an outcome: JSON if it is valid, else text.
pub(crate) fn to_outcome(success: bool, output: &Bytes, error: &str) -> Outcome {
    if !success {
        let told = strip_python_traceback(error);
        let told = if told.is_empty() { "the tool failed without an error message" } else { told };
        return Outcome::tool_failure(&truncate_text(told));
    }
    let parsed = Json::parse(output.clone(), JsonLimits::DOCUMENT);
    Outcome::from_value(parsed.unwrap_or_else(|_| Json::encode(&*String::from_utf8_lossy(output))))
}

fn strip_python_traceback(error: &str) -> &str {
    error.split_once(PYTHON_TRACEBACK_START).map_or(error, |(told, _)| told).trim()
}

/// Converts the gRPC status of a failed call to an error.
pub(crate) fn to_execute_error(node: &str, status: &Status) -> ExecuteError {
    if has_source::<ConnectError>(status) {
        let told = format!("the node `{node}` cannot be reached");
        return ExecuteError::not_sent(ErrorCode::UpstreamLost, told);
    }
    let is_timeout =
        status.code() == tonic::Code::DeadlineExceeded || has_source::<TimeoutExpired>(status);
    // The message of a tonic server.
    if is_timeout
        || status.code() == tonic::Code::Cancelled && status.message() == "Timeout expired"
    {
        let told = format!("the node `{node}` did not respond in time");
        return ExecuteError::maybe_sent(ErrorCode::Timeout, told);
    }
    let has_cause = std::error::Error::source(status).is_some();
    let code = match status.code() {
        tonic::Code::Unavailable => ErrorCode::UpstreamLost,
        tonic::Code::Unauthenticated | tonic::Code::PermissionDenied => {
            ErrorCode::CredentialMissing
        }
        // A status of the node has no source error; with one, the connection failed.
        _ if has_cause => ErrorCode::UpstreamLost,
        _ => ErrorCode::UpstreamFailed,
    };
    let first_line = status.message().lines().next().unwrap_or_default();
    ExecuteError::maybe_sent(code, format!("the node `{node}`: {}", truncate_text(first_line)))
}

/// Whether the source chain has this error. A failed connection means that nothing was sent.
fn has_source<E: std::error::Error + 'static>(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<E>() {
            return true;
        }
        source = error.source();
    }
    false
}

fn truncate_text(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_ERROR_BYTES);
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;
    use tool::OutcomeBody;

    use super::to_outcome;

    fn value(success: bool, output: &'static [u8], error: &str) -> serde_json::Value {
        let outcome = to_outcome(success, &Bytes::from_static(output), error);
        assert_eq!(outcome.is_error, !success);
        match outcome.body {
            OutcomeBody::Value(json) | OutcomeBody::Mcp(json) => json.to_value(),
        }
    }

    #[test]
    fn output_is_json_where_it_is_such_and_text_otherwise() {
        assert_eq!(value(true, br#"{"a":1}"#, ""), json!({ "a": 1 }));
        assert_eq!(value(true, b"plain \xff", ""), json!("plain \u{fffd}"));
        assert_eq!(value(true, b"", ""), json!(""));
        assert_eq!(value(true, br#"{"a":1,"a":2}"#, ""), json!(r#"{"a":1,"a":2}"#));
    }

    #[test]
    fn no_trace_reaches_a_caller() {
        let error = "division by zero\nTraceback (most recent call last):\n  File \"/srv/tool.py\"";
        assert_eq!(value(false, b"", error), json!("division by zero"));
        assert_eq!(value(false, b"x", ""), json!("the tool failed without an error message"));
        let long = value(false, b"", &"ä".repeat(9_000));
        assert_eq!(long.as_str().unwrap().len(), super::MAX_ERROR_BYTES);
    }
}
