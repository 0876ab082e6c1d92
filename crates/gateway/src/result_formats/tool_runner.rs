//! Tool runner of the safety-level library: runs calls and returns every failure as a result.

use std::sync::Arc;

use bytes::Bytes;
use identity::Principal;
use serde::Serialize;
use tool::call_outcome::{CallFailure, CallResponse};
use tool::{CallId, CallerType, ErrorCode, ExecutionState, Interface, PendingReason, SafetyLevel};

use super::approval_callback::{ApprovalCallback, CallbackApprover};
use super::{outcome_value, value_to_text};
use crate::{CallRequest, Gateway};

/// One call as a model requested it.
#[derive(Debug, Clone)]
pub struct ModelToolCall {
    /// Id that the model gave the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, an unparsed JSON object.
    pub arguments: Bytes,
}

/// Result in the safety-level library's format. Either `success` or `error` is set; `content` is
/// always text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolResult {
    /// Id of the call.
    pub id: String,
    /// True if the call succeeded.
    pub success: bool,
    /// Result of the tool; empty if the call failed.
    pub content: String,
    /// Error message, if the call failed.
    pub error: Option<String>,
    /// Additional facts about the call.
    pub metadata: ToolResultMetadata,
}

/// Metadata of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolResultMetadata {
    /// Execution time in milliseconds.
    pub execution_time_ms: u64,
    /// Safety level of the tool; absent if the tool is unknown.
    pub safety_level: Option<SafetyLevel>,
    /// True if a person approved it.
    #[serde(rename = "approved")]
    pub is_approved: bool,
}

/// Runs calls for one principal.
#[derive(Debug, Clone)]
pub struct ToolRunner {
    gateway: Arc<Gateway>,
    principal: Principal,
    approver: Option<CallbackApprover>,
}

impl ToolRunner {
    /// Creates a runner for this principal.
    pub fn new(gateway: Arc<Gateway>, principal: Principal) -> Self {
        Self { gateway, principal, approver: None }
    }

    /// Adds an approval callback, which decides about pending calls as `approver` and needs its
    /// right `approve`: see [`CallbackApprover`].
    #[must_use]
    pub fn with_approval_callback(
        self,
        approver: Principal,
        callback: impl ApprovalCallback,
    ) -> Self {
        Self { approver: Some(CallbackApprover::new(approver, callback)), ..self }
    }

    /// Runs one call and returns its result.
    pub async fn execute_call(&self, call: ModelToolCall) -> ToolResult {
        let view = self.gateway.view_for(&self.principal, CallerType::Direct);
        let safety = view.find_tool(&call.name).map(|(entry, _)| entry.tool.traits.safety);
        let request =
            CallRequest::new(call.name.clone(), call.arguments.clone(), Interface::Library);
        let answer = self.gateway.call_tool(&self.principal, request).await;
        let approver = self.approver.as_ref().filter(|_| needs_approval(&answer));
        let Some(approver) = approver else { return tool_result(&call, (safety, false), answer) };
        let decided = Box::pin(approver.decide_call(&self.gateway, &self.principal, answer)).await;
        tool_result(&call, (safety, decided.is_approved), decided.response)
    }

    /// Runs calls one after the other. Each has its own result.
    pub async fn execute_calls(&self, calls: Vec<ModelToolCall>) -> Vec<ToolResult> {
        let mut results = Vec::with_capacity(calls.len());
        for one in calls {
            results.push(self.execute_call(one).await);
        }
        results
    }
}

fn needs_approval(answer: &CallResponse) -> bool {
    matches!(answer.result, Ok(ExecutionState::Pending(PendingReason::Approval(_))))
}

fn tool_result(
    asked: &ModelToolCall,
    (safety_level, approved): (Option<SafetyLevel>, bool),
    answer: CallResponse,
) -> ToolResult {
    let metadata = ToolResultMetadata {
        execution_time_ms: answer.elapsed_ms,
        safety_level,
        is_approved: approved,
    };
    let (content, error) = match answer.result {
        Ok(ExecutionState::Completed(outcome)) if outcome.is_error => (
            String::new(),
            Some(format!("Tool error: {}", value_to_text(&outcome_value(&outcome)))),
        ),
        Ok(ExecutionState::Completed(outcome)) => (format_content(&outcome_value(&outcome)), None),
        Ok(ExecutionState::Pending(wait)) => {
            (String::new(), Some(pending_text(&wait, answer.call_id)))
        }
        Err(failure) => (String::new(), Some(error_text(&asked.name, &failure))),
    };
    ToolResult { id: asked.id.clone(), success: error.is_none(), content, error, metadata }
}

/// Formats a value as the safety-level library does: strings unchanged, null as `nil`, other values
/// as JSON.
fn format_content(value: &serde_json::Value) -> String {
    if value.is_null() { "nil".to_owned() } else { value_to_text(value) }
}

fn pending_text(wait: &PendingReason, call: CallId) -> String {
    match wait {
        PendingReason::Approval(_) => format!("Tool error: the call needs an approval: {call}"),
        PendingReason::Input { .. } => {
            "Tool error: the tool requests input, which this interface does not support".to_owned()
        }
        PendingReason::Nested(call) => format!("Tool error: the tool waits for the call {call}"),
    }
}

/// Returns the safety-level library's error text.
fn error_text(name: &str, failure: &CallFailure) -> String {
    match failure.code {
        ErrorCode::UnknownTool => format!("Unknown tool: {name}"),
        ErrorCode::ApprovalRequired => {
            "Dangerous tool requires approval handler, but none configured".to_owned()
        }
        ErrorCode::ApprovalDenied => match failure.message.split_once(": ") {
            Some((_, reason)) => format!("Tool execution denied by user: {reason}"),
            None => "Tool execution denied by user".to_owned(),
        },
        ErrorCode::InvalidArguments => match missing_parameter(&failure.message) {
            Some(parameter) => format!("Required parameter '{parameter}' missing"),
            None => format!("Tool error: {}", failure.message),
        },
        _ => format!("Tool error: {}", failure.message),
    }
}

/// Returns the name of a missing parameter, if that is the error.
fn missing_parameter(message: &str) -> Option<&str> {
    message.strip_prefix('"')?.split_once("\" is a required property").map(|(name, _)| name)
}
