//! The result of a call as the module API's `ToolResult`, with its texts.

use catalog::SourceState;
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use tool::call_outcome::{CallFailure, CallResponse};
use tool::{CallerType, ErrorCode, ExecutionState, Json, PendingReason};

use super::visible_modules;
use crate::escape_name;
use server_core::call_result::to_plain_result;
use server_core::pending_call::{self, PendingCall};
use server_core::server_state::ServerState;

/// The result of a call, always with status 200; failures are reported in `error`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ToolResult {
    /// Name with which the tool was called.
    tool_name: String,
    /// Whether the tool reports success.
    success: bool,
    /// Result of the tool; null on failure; a pending result of the research registry if the call
    /// needs approval.
    #[schemars(with = "serde_json::Value")]
    result: Json,
    /// Error message.
    error: Option<String>,
}

impl ToolResult {
    pub(super) fn from_error(tool_name: String, error: String) -> Self {
        Self { tool_name, success: false, result: Json::encode(&()), error: Some(error) }
    }
}

/// A completed call and its caller.
pub(super) struct CompletedCall<'a> {
    pub(super) doors: &'a ServerState,
    /// The caller with the level of its key.
    pub(super) principal: &'a Principal,
    /// The caller with the level that the call requested.
    pub(super) lowered_caller: &'a Principal,
    pub(super) tool_name: String,
    pub(super) arguments: Json,
}

impl CompletedCall<'_> {
    pub(super) fn into_tool_result(self, answer: CallResponse) -> ToolResult {
        let outcome = match answer.result {
            Ok(ExecutionState::Completed(outcome)) => outcome,
            // The module API has no pending state. Nothing ran, so it is not a success; calling
            // again returns the same pending call. The result has the format of the tool-file
            // registry.
            Ok(ExecutionState::Pending(PendingReason::Approval(approval))) => {
                let call = PendingCall { id: answer.call_id, approval: &approval };
                let result = pending_call::pending_result(&self.tool_name, &self.arguments, call);
                let error = Some(pending_call::pending_message(call));
                return ToolResult { tool_name: self.tool_name, success: false, result, error };
            }
            Ok(ExecutionState::Pending(_)) => {
                let error = pending_call::INPUT_NOT_SUPPORTED.to_owned();
                return ToolResult::from_error(self.tool_name, error);
            }
            Err(failure) => {
                let error = self.error_message(failure);
                return ToolResult::from_error(self.tool_name, error);
            }
        };
        let is_error = outcome.is_error;
        let (result, _) = to_plain_result(outcome);
        if is_error {
            let error = result.decode::<String>().unwrap_or_else(|_| result.as_str().to_owned());
            return ToolResult::from_error(self.tool_name, error);
        }
        ToolResult { tool_name: self.tool_name, success: true, result, error: None }
    }

    /// The error text. If only the requested level hides the tool, the text says so.
    fn error_message(&self, failure: CallFailure) -> String {
        if failure.code != ErrorCode::UnknownTool {
            return failure.message;
        }
        let name = &self.tool_name;
        let own = self.doors.components.gateway.view_for(self.principal, CallerType::Direct);
        if let Some((entry, _)) = own.find_tool(name) {
            let (needed, has) = (entry.tool.traits.min_level, self.lowered_caller.level());
            return format!("Permission denied: {name} requires '{needed}' but user has '{has}'");
        }
        not_found_message(self.doors, self.principal, name)
    }
}

/// The module API's text for a tool that does not exist for the caller; hidden and unknown tools
/// are reported alike.
pub(super) fn not_found_message(state: &ServerState, principal: &Principal, name: &str) -> String {
    let view = state.components.gateway.view_for(principal, CallerType::Direct);
    match name.split_once('.') {
        None => {
            let name = escape_name(name);
            format!("Invalid tool name format: {name}. Expected 'module.tool_name'.")
        }
        Some((module, _)) if view.has_source(module) => unknown_tool_message(name),
        Some((module, _)) => unavailable_message(state, principal, module)
            .unwrap_or_else(|| format!("Unknown module: {}", escape_name(module))),
    }
}

/// Explains why a visible module that was never listed cannot be called.
fn unavailable_message(state: &ServerState, principal: &Principal, module: &str) -> Option<String> {
    let mut modules = visible_modules(state, principal).into_iter();
    let shelf = modules.find(|shelf| shelf.source.as_str() == module)?;
    match shelf.state {
        SourceState::Current | SourceState::Stale => None,
        SourceState::Starting => {
            Some("Tool execution error: the module has not been reached yet".to_owned())
        }
        SourceState::Failed(_) => {
            let problem = shelf.problems.first().map(|problem| problem.message.as_str());
            Some(format!("Tool execution error: {}", problem.unwrap_or("Connection refused")))
        }
    }
}

pub(super) fn unknown_tool_message(name: &str) -> String {
    format!("Unknown tool: {}", escape_name(name))
}
