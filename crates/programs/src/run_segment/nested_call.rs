//! One nested call of a program, executed through the same pipeline as every other call.

use std::time::Duration;

use gateway::{CallRequest, CredentialStatus};
use identity::Principal;
use serde_json::{Map, Value};
use tool::call_outcome::{CallFailure, CallResponse, CallStatus, Outcome, OutcomeBody};
use tool::executor::PendingReason;
use tool::{CallId, CallerType, ErrorCode, ExecutionState, Interface, Json};

use super::{RunSegment, SegmentAbort};
use crate::interpreter::{CallValue, ExceptionKind};
use crate::program_functions::ScriptFunction;
use crate::program_state::ProgramState;
use crate::resumption::{CREDENTIAL_REVOKED, MAX_SEGMENT_TIME};

/// Ids of a nested call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NestedCallIds {
    /// The program that makes the call.
    pub(crate) program: CallId,
    /// The call itself, whose id is generated in advance.
    pub(crate) call: CallId,
    /// Position among the calls of the program.
    pub(crate) index: usize,
}

/// Progress of a nested call: returned, or pending an approval.
pub(crate) enum CallProgress {
    Returned(CallValue),
    /// It waits for approval.
    PendingApproval(CallId),
}

impl RunSegment<'_> {
    /// Generates the id of a call in advance.
    pub(crate) fn new_call_id(&self) -> CallId {
        self.gateway.new_call_id()
    }

    /// Makes one call with the caller's current rights, until the program is cancelled.
    pub(crate) async fn execute_call(
        &self,
        ids: NestedCallIds,
        function: &ScriptFunction,
        args: &Map<String, Value>,
    ) -> Result<(CallResponse, CallProgress), SegmentAbort> {
        let request = CallRequest {
            call_id: Some(ids.call),
            caller_type: CallerType::Chain,
            parent_id: Some(ids.program),
            chain_index: u32::try_from(ids.index).ok(),
            ..CallRequest::new(
                function.tool_name(),
                Json::encode(args).bytes().clone(),
                Interface::Program,
            )
        };
        let principal = self.current_caller()?;
        let calling = Box::pin(self.gateway.call_tool(&principal, request));
        let answer = self.until_cancelled(calling).await?;
        let called = match &answer.result {
            Ok(ExecutionState::Pending(PendingReason::Approval(_))) => {
                CallProgress::PendingApproval(answer.call_id)
            }
            _ => CallProgress::Returned(to_call_value(&answer)),
        };
        Ok((answer, called))
    }

    /// Returns the caller with its current credential, and at most the program's rights.
    fn current_caller(&self) -> Result<Principal, SegmentAbort> {
        let has = (self.principal.caller(), self.principal.rights_class().restrictions());
        match self.programs.current_caller(has, Some(self.principal)) {
            CredentialStatus::Valid(now) => Ok(now),
            CredentialStatus::Invalid | CredentialStatus::NotStoredHere => {
                Err(CallFailure::new(ErrorCode::Unauthenticated, CREDENTIAL_REVOKED).into())
            }
        }
    }

    /// Checks that the program may make `additional` calls.
    pub(crate) fn check_call_limit(
        program: &ProgramState,
        additional: usize,
    ) -> Result<(), String> {
        let most = program.max_calls;
        if program.calls.len().saturating_add(additional) <= most {
            return Ok(());
        }
        Err(format!("a program can make at most {most} calls"))
    }

    /// Returns the results of these pending calls; `None` while one is undecided.
    pub(crate) async fn settled_calls(
        &self,
        pending: &[CallId],
    ) -> Result<Option<Vec<SettledCall>>, CallFailure> {
        let mut all = Vec::new();
        for call in pending {
            match self.settle_call(*call).await? {
                Some(settled) => all.push(settled),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    async fn settle_call(&self, call: CallId) -> Result<Option<SettledCall>, CallFailure> {
        let waits = |answer: &CallResponse| matches!(answer.result, Ok(ExecutionState::Pending(_)));
        let first = self.gateway.wait_for_result(self.principal, call, Duration::ZERO).await;
        let mut answer = match first {
            Err(failure) if failure.code == ErrorCode::NotFound => {
                return self.outcome_from_record(call).await.map(Some);
            }
            other => other?,
        };
        // One that was approved is waited for to its end.
        let approved = matches!(
            &answer.result, Ok(ExecutionState::Pending(PendingReason::Approval(approval))) if approval.is_approved
        );
        if waits(&answer) && approved {
            answer = self.gateway.wait_for_result(self.principal, call, MAX_SEGMENT_TIME).await?;
        }
        Ok((!waits(&answer)).then(|| SettledCall::new(answer)))
    }

    /// Looks up a call whose result is no longer stored for its caller. The record shows only
    /// whether it was made.
    async fn outcome_from_record(&self, call: CallId) -> Result<SettledCall, CallFailure> {
        let status = match self.recorded_status(call).await? {
            None | Some(CallStatus::Refused) => CallStatus::Refused,
            Some(_) => CallStatus::Unknown,
        };
        let message = "the result of the pending call is no longer stored";
        let result = Err(CallFailure::new(ErrorCode::ApprovalExpired, message));
        Ok(SettledCall::new(CallResponse { call_id: call, status, result, elapsed_ms: 0 }))
    }
}

/// A pending call that has ended, with its value for the script.
pub(crate) struct SettledCall {
    pub(crate) answer: CallResponse,
    pub(crate) value: CallValue,
}

impl SettledCall {
    fn new(answer: CallResponse) -> Self {
        let came = to_call_value(&answer);
        Self { answer, value: came }
    }

    /// Returns whether the approval expired and the call was not made.
    pub(crate) fn is_expired(&self) -> bool {
        let expired = |failure: &CallFailure| failure.code == ErrorCode::ApprovalExpired;
        self.answer.status != CallStatus::Unknown && self.answer.result.as_ref().is_err_and(expired)
    }
}

/// Converts a response to the value or exception that a script receives.
pub(super) fn to_call_value(answer: &CallResponse) -> CallValue {
    match &answer.result {
        Ok(ExecutionState::Completed(outcome)) if outcome.is_error => {
            CallValue::Raised { kind: ExceptionKind::Failed, message: failure_text(outcome) }
        }
        Ok(ExecutionState::Completed(outcome)) => CallValue::Value(outcome_value(outcome)),
        Ok(ExecutionState::Pending(_)) => CallValue::Raised {
            kind: ExceptionKind::Failed,
            message: "the tool requests input, which programs do not support".to_owned(),
        },
        Err(failure) => {
            let kind = match failure.code {
                ErrorCode::Denied
                | ErrorCode::ApprovalDenied
                | ErrorCode::ApprovalRequired
                | ErrorCode::ApprovalExpired
                | ErrorCode::ApprovalVoid => ExceptionKind::Denied,
                ErrorCode::InvalidArguments => ExceptionKind::Arguments,
                _ => ExceptionKind::Failed,
            };
            CallValue::Raised { kind, message: failure.message.clone() }
        }
    }
}

/// Returns the structured content, or the text if there is none. Unlike a model's formats, a script
/// gets the preview of a stored result even if it has structured content.
fn outcome_value(outcome: &Outcome) -> Value {
    match &outcome.body {
        OutcomeBody::Value(value) => value.to_value(),
        OutcomeBody::Mcp(result) => {
            if let Some(preview) = tool::artifact::artifact_preview(result) {
                return preview.to_value();
            }
            let result = result.to_value();
            match result.get("structuredContent").filter(|it| !it.is_null()) {
                Some(structured) => structured.clone(),
                None => Value::String(joined_texts(&result)),
            }
        }
    }
}

fn failure_text(outcome: &Outcome) -> String {
    match &outcome.body {
        OutcomeBody::Value(value) => match value.to_value() {
            Value::String(text) => text,
            other => other.to_string(),
        },
        OutcomeBody::Mcp(result) => joined_texts(&result.to_value()),
    }
}

fn joined_texts(result: &Value) -> String {
    let content = result.get("content").and_then(Value::as_array);
    let texts = content.into_iter().flatten().filter_map(|it| it.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Records the response of a call in the program.
pub(crate) fn record_answer(program: &mut ProgramState, tool: &str, answer: &CallResponse) {
    let success = match &answer.result {
        Ok(ExecutionState::Pending(_)) => None,
        Ok(ExecutionState::Completed(outcome)) => Some(!outcome.is_error),
        Err(_) => Some(false),
    };
    program.record_call(tool, (answer.call_id, success), answer.elapsed_ms);
}
