//! Responses for calls that wait for an approval, for interfaces without a response format of their
//! own for this.

use std::time::Duration;

use serde_json::json;
use tool::executor::ApprovalRequest;
use tool::{CallId, ErrorCode, Json};

use crate::error::ApiError;

/// The error for a tool that requests input over an interface without client requests.
pub const INPUT_NOT_SUPPORTED: &str =
    "the tool requests input, which this interface does not support";
/// Maximum time that a caller may ask to wait.
const MAX_WAIT: Duration = Duration::from_mins(10);

/// A call that waits for an approval.
#[derive(Debug, Clone, Copy)]
pub struct PendingCall<'a> {
    /// ID of the call and of its approval.
    pub id: CallId,
    /// The approval that the call waits for.
    pub approval: &'a ApprovalRequest,
}

/// The pending result in the `ToolResult` format, with the id to query it again.
pub fn pending_result(tool: &str, args: &Json, call: PendingCall<'_>) -> Json {
    let PendingCall { id, approval } = call;
    let metadata = json!({
        "tool_name": tool,
        "args": args,
        "approval_id": id.to_string(),
        "expires": approval.expires_at.to_string(),
        "reason": approval.reason,
        "message": pending_message(call),
    });
    Json::encode(&json!({
        "protocol_version": 1,
        "ok": true,
        "status": "pending_approval",
        "output": null,
        "side_effects_declared": approval.declared_effects(),
        "requires_approval": true,
        "metadata": metadata,
    }))
}

/// The message about a pending call, for a model or a person.
pub fn pending_message(call: PendingCall<'_>) -> String {
    let PendingCall { id, approval } = call;
    if approval.is_approved {
        return format!("call {id} was approved and is running; its result is not available yet");
    }
    format!(
        "call {id} waits for a person's approval until {}: {}. It has not run. Do not call again: it \
         runs by itself when it is approved, {}",
        approval.expires_at,
        approval.reason,
        approval_instructions(call)
    )
}

/// Explains who can approve a pending call and how, as the end of a sentence. All interfaces use
/// it.
pub fn approval_instructions(call: PendingCall<'_>) -> String {
    let command = format!("with `toolkeep approval approve {}`", call.id);
    if call.approval.is_from_agent {
        return command;
    }
    format!(
        "{command} by another person with the right `approve`: you cannot approve your own call. \
         To approve it yourself, make it with an agent's key instead (`toolkeep tool call --agent`)"
    )
}

/// Parses a wait time such as `30s`, `500ms`, `2m`, or plain seconds.
///
/// # Errors
/// Returns an error for another form or a wait that is too long.
pub fn parse_wait(text: &str) -> Result<Duration, ApiError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or(("", ""));
    let ms = match unit {
        "ms" => Some(1),
        "s" | "" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let number = number.parse::<u64>().ok().zip(ms);
    let wait = number.and_then(|(number, ms)| number.checked_mul(ms)).map(Duration::from_millis);
    wait.filter(|wait| *wait <= MAX_WAIT).ok_or_else(|| {
        let message = format!(
            "the query: `wait` must be a duration of at most {} \
            m",
            MAX_WAIT.as_secs() / 60
        );
        ApiError::new(ErrorCode::InvalidRequest, message)
            .with_help("write it as `30s`, `500ms` or `2m`")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse_wait;

    #[test]
    fn times_to_wait() {
        for (text, ms) in [("30s", 30_000), ("500ms", 500), ("2m", 120_000), ("5", 5_000), ("0", 0)]
        {
            assert_eq!(parse_wait(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        for bad in ["", "s", "11m", "1h", "-1s", "1.5s", "99999999999999999999s", "30 s"] {
            assert!(parse_wait(bad).is_err(), "{bad}");
        }
    }
}
