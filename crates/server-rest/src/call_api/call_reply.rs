//! The response to a call: its result, or the approval that it is waiting for.

use axum::Json as Reply;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::Serialize;
use tool::call_outcome::{CallFailure, CallResponse, CallStatus};
use tool::executor::{ApprovalRequest, PendingReason};
use tool::{CallId, ErrorCode, ExecutionState, Json};

use server_core::call_result::to_plain_result;
use server_core::error::ApiError;
use server_core::pending_call::{self, PendingCall};

/// The result of a call.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CallReply {
    /// ID of the call in the record.
    #[schemars(with = "String")]
    call_id: CallId,
    /// Name of the tool; absent if the request has only the ID of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// Status: `succeeded`, or `failed` if the tool reports a failure.
    #[schemars(with = "String")]
    status: CallStatus,
    /// Result of the tool.
    #[schemars(with = "serde_json::Value")]
    result: Json,
    /// MCP content blocks as received, for tools of MCP servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<serde_json::Value>>")]
    content: Option<Json>,
    /// Whether the tool reports a failure.
    is_error: bool,
    /// Duration in milliseconds.
    elapsed_ms: u64,
}

/// A call that needs approval.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PendingCallReply {
    /// ID of the call and of its approval.
    #[schemars(with = "String")]
    call_id: CallId,
    /// Name of the tool; absent if the request has only the ID of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// Status: `waiting`, or `running` if the call is approved and has not ended.
    #[schemars(with = "String")]
    status: CallStatus,
    /// Approval that the call waits for.
    approval: PendingApprovalReply,
}

/// The approval that a call waits for.
#[derive(Debug, Serialize, JsonSchema)]
struct PendingApprovalReply {
    #[schemars(with = "String")]
    id: CallId,
    /// Reason for the approval.
    reason: String,
    /// Expiry time of the approval, RFC 3339.
    expires: String,
    /// Declared side effects of the tool, or `unknown`.
    side_effects: Vec<String>,
    /// Whether the call is approved.
    approved: bool,
    /// Whether an agent's key made the call. Otherwise, no key of its caller can approve it.
    by_agent: bool,
    /// Advice on how to continue.
    fix: String,
}

impl PendingApprovalReply {
    fn from_approval(id: CallId, approval: ApprovalRequest) -> Self {
        let fix = format!(
            "have it approved {}; then `POST /v1/calls/{id}/resume?wait=30s` returns the result",
            pending_call::approval_instructions(PendingCall { id, approval: &approval })
        );
        let ApprovalRequest {
            reason,
            expires_at: expires,
            effects,
            is_approved: approved,
            is_from_agent: by_agent,
        } = approval;
        let expires = expires.to_string();
        Self { id, reason, expires, side_effects: effects, approved, by_agent, fix }
    }
}

/// Builds the response for a finished or pending call.
pub(super) fn call_response(
    answer: CallResponse,
    tool: Option<String>,
) -> Result<Response, ApiError> {
    let CallResponse { call_id, status, result, elapsed_ms } = answer;
    let outcome = match result.map_err(|failure| ApiError::from_failure(call_id, failure))? {
        ExecutionState::Completed(outcome) => outcome,
        ExecutionState::Pending(PendingReason::Approval(approval)) => {
            let approval = PendingApprovalReply::from_approval(call_id, approval);
            let reply = PendingCallReply { call_id, tool, status, approval };
            return Ok((StatusCode::ACCEPTED, Reply(reply)).into_response());
        }
        // The request declared no client capabilities, so an upstream that requests input is at
        // fault.
        ExecutionState::Pending(_) => {
            let message = pending_call::INPUT_NOT_SUPPORTED;
            let failure = CallFailure::new(ErrorCode::UpstreamFailed, message);
            return Err(ApiError::from_failure(call_id, failure));
        }
    };
    let is_error = outcome.is_error;
    let (result, content) = to_plain_result(outcome);
    let reply = CallReply { call_id, tool, status, result, content, is_error, elapsed_ms };
    Ok(Reply(reply).into_response())
}
