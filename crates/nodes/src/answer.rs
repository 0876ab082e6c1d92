//! What came back from a node, as an outcome.

use bytes::Bytes;
use tonic::{ConnectError, Status, TimeoutExpired};
use tool::{Code, ExecuteError, Json, Limits, Outcome};

/// Bytes of a failure's text.
const TEXT: usize = 4 << 10;
/// How Python begins a trace. Nodes of spec 4 put one behind their error.
const TRACE: &str = "Traceback (most recent call last)";

/// A tool's answer: JSON where it is such, else text.
pub(crate) fn outcome(success: bool, output: &Bytes, error: &str) -> Outcome {
    if !success {
        let told = without_trace(error);
        let told = if told.is_empty() { "the tool failed, and does not say why" } else { told };
        return Outcome::failed(&cut(told));
    }
    let checked = Json::check(output.clone(), Limits::DOCUMENT);
    Outcome::value(checked.unwrap_or_else(|_| Json::of(&*String::from_utf8_lossy(output))))
}

fn without_trace(error: &str) -> &str {
    error.split_once(TRACE).map_or(error, |(told, _)| told).trim()
}

/// What went wrong on the way.
pub(crate) fn lost(node: &str, status: &Status) -> ExecuteError {
    if caused::<ConnectError>(status) {
        let told = format!("the node `{node}` cannot be reached");
        return ExecuteError::before(Code::UpstreamLost, told);
    }
    let late = status.code() == tonic::Code::DeadlineExceeded || caused::<TimeoutExpired>(status);
    // A node of tonic's says it in these words.
    if late || status.code() == tonic::Code::Cancelled && status.message() == "Timeout expired" {
        let told = format!("the node `{node}` did not answer in time");
        return ExecuteError::during(Code::Timeout, told);
    }
    let broke = std::error::Error::source(status).is_some();
    let code = match status.code() {
        tonic::Code::Unavailable => Code::UpstreamLost,
        tonic::Code::Unauthenticated | tonic::Code::PermissionDenied => Code::CredentialMissing,
        // What a node says has no cause here: the line broke.
        _ if broke => Code::UpstreamLost,
        _ => Code::UpstreamFailed,
    };
    let said = status.message().lines().next().unwrap_or_default();
    ExecuteError::during(code, format!("the node `{node}`: {}", cut(said)))
}

/// Whether this lies beneath it. For a failed connection it means that nothing can have run.
fn caused<E: std::error::Error + 'static>(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<E>() {
            return true;
        }
        source = error.source();
    }
    false
}

fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT);
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;
    use tool::Body;

    use super::outcome;

    fn value(success: bool, output: &'static [u8], error: &str) -> serde_json::Value {
        let outcome = outcome(success, &Bytes::from_static(output), error);
        assert_eq!(outcome.is_error, !success);
        match outcome.body {
            Body::Value(json) | Body::Mcp(json) => json.value(),
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
        assert_eq!(value(false, b"x", ""), json!("the tool failed, and does not say why"));
        let long = value(false, b"", &"ä".repeat(9_000));
        assert_eq!(long.as_str().unwrap().len(), super::TEXT);
    }
}
