//! Recovery of a call that was in flight when the process ended: looks up whether it ran, and its
//! result.

use std::time::Duration;

use tool::call_outcome::{CallFailure, CallResponse, CallStatus};
use tool::executor::PendingReason;
use tool::{CallId, ErrorCode, ExecutionState};

use super::nested_call::{CallProgress, to_call_value};
use super::{RunSegment, SegmentAbort};
use crate::program_functions::ScriptFunction;

/// Result of looking up an interrupted call.
pub(crate) enum CallRecovery {
    /// The call was pending, and has or will have this result.
    Settled(CallResponse, CallProgress),
    /// The call was not made, or may be repeated, with this ID.
    RunAgain(CallId),
}

impl RunSegment<'_> {
    /// Looks up an interrupted call. The program ends if the effect of the call is unknown.
    pub(crate) async fn recover_call(
        &self,
        call: CallId,
        function: Option<&ScriptFunction>,
    ) -> Result<CallRecovery, SegmentAbort> {
        match self.gateway.wait_for_result(self.principal, call, Duration::ZERO).await {
            // Approved and started, with unknown outcome.
            Ok(answer) if answer.status == CallStatus::Unknown => {
                let function = function.ok_or_else(|| outcome_unknown(call, None))?;
                return Ok(CallRecovery::RunAgain(self.rerun_id(call, function)?));
            }
            Ok(answer) => {
                let called = match &answer.result {
                    Ok(ExecutionState::Pending(PendingReason::Approval(_))) => {
                        CallProgress::PendingApproval(call)
                    }
                    _ => CallProgress::Returned(to_call_value(&answer)),
                };
                return Ok(CallRecovery::Settled(answer, called));
            }
            Err(failure) if failure.code == ErrorCode::NotFound => {}
            Err(failure) => return Err(failure.into()),
        }
        match self.recorded_status(call).await? {
            // No intent on record, no execution.
            None => Ok(CallRecovery::RunAgain(call)),
            // Not executed; a repeated call gets the same refusal.
            Some(CallStatus::Refused) => Ok(CallRecovery::RunAgain(self.new_call_id())),
            Some(_) => match function {
                Some(function) => Ok(CallRecovery::RunAgain(self.rerun_id(call, function)?)),
                None => Err(outcome_unknown(call, None)),
            },
        }
    }

    /// Returns the ID for the repetition of a call, if a repeated call has no further effect.
    pub(crate) fn rerun_id(
        &self,
        call: CallId,
        function: &ScriptFunction,
    ) -> Result<CallId, SegmentAbort> {
        if function.is_repeatable() {
            return Ok(self.new_call_id());
        }
        Err(outcome_unknown(call, Some(function)))
    }

    pub(super) async fn recorded_status(
        &self,
        call: CallId,
    ) -> Result<Option<CallStatus>, CallFailure> {
        let message = |why: &dyn std::fmt::Display| {
            let told = format!("cannot read the record of the call `{call}`: {why}");
            CallFailure::new(ErrorCode::RecordUnavailable, told)
        };
        self.programs.record_reader().call_status(call).await.map_err(|error| message(&error))
    }
}

/// Creates the error of a call whose outcome is unknown.
pub(crate) fn outcome_unknown(call: CallId, function: Option<&ScriptFunction>) -> SegmentAbort {
    let tool = function.map_or("a tool that no longer exists", ScriptFunction::tool_name);
    SegmentAbort::OutcomeUnknown(format!(
        "the server stopped while `{tool}` ran (call {call}): its effect is unknown, and it is not \
         retried"
    ))
}
