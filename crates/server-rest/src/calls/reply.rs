//! The response to a call: its result, or the approval that it is waiting for.

use axum::Json as Reply;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::Serialize;
use tool::executor::{Approval, Wait};
use tool::outcome::{Answer, Failure, Status};
use tool::{CallId, Code, Json, Step};

use server_core::call_result::shown;
use server_core::error::ApiError;
use server_core::held;

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CallReply {
    /// Names the call in the record.
    #[schemars(with = "String")]
    call_id: CallId,
    /// The tool's name; absent where only the call's id was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// `succeeded`, or `failed` where the tool itself says so.
    #[schemars(with = "String")]
    status: Status,
    /// The answer.
    #[schemars(with = "serde_json::Value")]
    result: Json,
    /// MCP content blocks as received, where the tool is an MCP server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<serde_json::Value>>")]
    content: Option<Json>,
    /// Whether the tool itself reports a failure.
    is_error: bool,
    /// Milliseconds.
    elapsed_ms: u64,
}

/// A call that is held.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HeldReply {
    /// Names the call, and the approval it waits for.
    #[schemars(with = "String")]
    call_id: CallId,
    /// The tool's name; absent where only the id was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// `waiting`, or `running` where it was approved and has not ended.
    #[schemars(with = "String")]
    status: Status,
    /// What it waits for.
    approval: HeldFor,
}

/// What a call waits for.
#[derive(Debug, Serialize, JsonSchema)]
struct HeldFor {
    #[schemars(with = "String")]
    id: CallId,
    /// Why it is held.
    reason: String,
    /// When the wait ends by itself, RFC 3339.
    expires: String,
    /// The tool's declared side effects, or `unknown`, which counts as one.
    side_effects: Vec<String>,
    /// Whether a person has agreed already.
    approved: bool,
    /// Whether an agent's key made the call. Otherwise no key of its caller approves it.
    by_agent: bool,
    /// What to do.
    fix: String,
}

impl HeldFor {
    fn of(id: CallId, approval: Approval) -> Self {
        let fix = format!(
            "have it approved {}; then `POST /v1/calls/{id}/resume?wait=30s` has the answer",
            held::how_to_approve(id, &approval)
        );
        let Approval { reason, expires, effects, approved, by_agent } = approval;
        let expires = expires.to_string();
        Self { id, reason, expires, side_effects: effects, approved, by_agent, fix }
    }
}

/// Builds the response for a finished or pending call.
pub(super) fn told(answer: Answer, tool: Option<String>) -> Result<Response, ApiError> {
    let Answer { call: call_id, status, result, elapsed_ms } = answer;
    let outcome = match result.map_err(|failure| ApiError::of(call_id, failure))? {
        Step::Done(outcome) => outcome,
        Step::Wait(Wait::Approval(approval)) => {
            let approval = HeldFor::of(call_id, approval);
            let reply = HeldReply { call_id, tool, status, approval };
            return Ok((StatusCode::ACCEPTED, Reply(reply)).into_response());
        }
        // The request declared no client capabilities, so an upstream that requests input is at
        // fault.
        Step::Wait(_) => {
            let told = "the tool asks for input, which cannot be given through this door";
            return Err(ApiError::of(call_id, Failure::new(Code::UpstreamFailed, told)));
        }
    };
    let is_error = outcome.is_error;
    let (result, content) = shown(outcome);
    let reply = CallReply { call_id, tool, status, result, content, is_error, elapsed_ms };
    Ok(Reply(reply).into_response())
}
