//! Sanitizing of untrusted text: escapes invisible characters and redacts credentials.
//!
//! Text is data: nothing found here changes a decision. Bytes that need no change are passed on
//! unchanged.

mod client_channel;
mod large_result;
mod secret_redaction;

use tool::executor::UpstreamRpcError;
use tool::{ExecutionState, Json, Outcome, OutcomeBody, PendingReason};

pub(crate) use client_channel::SanitizedChannel;
pub(crate) use large_result::LargeResult;

/// Sanitizes the result of an executor.
pub(crate) fn sanitize_state(state: ExecutionState) -> ExecutionState {
    match state {
        ExecutionState::Completed(Outcome { body, is_error }) => {
            let body = match body {
                OutcomeBody::Value(json) => OutcomeBody::Value(sanitize_json(json)),
                OutcomeBody::Mcp(json) => OutcomeBody::Mcp(sanitize_json(json)),
            };
            ExecutionState::Completed(Outcome { body, is_error })
        }
        ExecutionState::Pending(PendingReason::Input {
            input_requests: requests,
            state: resume,
        }) => ExecutionState::Pending(PendingReason::Input {
            input_requests: sanitize_json(requests),
            state: resume,
        }),
        ExecutionState::Pending(other) => ExecutionState::Pending(other),
    }
}

/// Sanitizes a text of an upstream.
pub(crate) fn sanitize_text(text: &str) -> String {
    // Shaped, it is a string still; should that ever be wrong, nothing of it is passed on.
    sanitize_json(Json::encode(text)).decode().unwrap_or_else(|_| "[REDACTED]".to_owned())
}

/// Sanitizes the JSON-RPC error of an upstream.
pub(crate) fn sanitize_rpc_error(error: UpstreamRpcError) -> UpstreamRpcError {
    let message = sanitize_text(&error.message);
    UpstreamRpcError { message, data: error.data.map(sanitize_json), ..error }
}

/// Escapes invisible characters without redaction, for a person who decides on the text.
pub(crate) fn escape_invisible(json: &Json) -> Json {
    json.escape_invisible().unwrap_or_else(|| json.clone())
}

/// Sanitizes a JSON text; returns the same bytes if nothing is found.
pub fn sanitize_json(json: Json) -> Json {
    let json = json.escape_invisible().unwrap_or(json);
    secret_redaction::redact_secrets(&json).unwrap_or(json)
}

#[cfg(test)]
mod tests {
    use tool::Json;

    #[test]
    fn nothing_found_is_nothing_copied() {
        let json = Json::encode("plain words\nand 世界");
        let before = json.bytes().as_ptr();
        assert_eq!(super::sanitize_json(json).bytes().as_ptr(), before);
    }

    #[test]
    fn a_credential_hidden_by_a_character_without_width_is_still_seen() {
        let json = Json::encode(&format!("ghp_{}\u{200b}", "a".repeat(36)));
        assert_eq!(super::sanitize_json(json).as_str(), r#""[REDACTED:github_pat]\\u{200b}""#);
    }
}
