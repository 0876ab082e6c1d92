//! Closure of a pending call that does not run: its final state, its refusal record and its
//! response.

use tool::call_outcome::{CallFailure, CallResponse, CallStatus};
use tool::ledger::ApprovalStep;
use tool::{CallId, RefusalRecord, StoreError};

use super::approval_index::ApprovalPhase;
use super::decisions::notify_changed;
use super::result_retrieval::is_unfinished;
use super::{ApprovalRegistry, ApprovalState, VersionedApproval};
use crate::Gateway;

/// End of a pending call that does not run.
#[derive(Debug)]
pub(super) struct ApprovalClosure {
    /// Final state.
    pub(super) state: ApprovalState,
    /// Failure that the caller gets.
    pub(super) failure: CallFailure,
}

impl Gateway {
    /// Retains the result of an ended call for the configured time.
    pub(super) fn retain_ended(&self, approvals: &ApprovalRegistry, id: CallId) {
        let due = self
            .components
            .clock
            .monotonic_now()
            .saturating_add(approvals.current_settings().result_retention);
        approvals.index.set_phase(id, ApprovalPhase::Completed, Some(due));
    }

    /// Closes a call that does not run, and writes its one refusal record.
    pub(super) async fn close_call(
        &self,
        approvals: &ApprovalRegistry,
        mut versioned: VersionedApproval,
        closure: ApprovalClosure,
    ) -> Result<VersionedApproval, StoreError> {
        let ApprovalClosure { state, failure } = closure;
        let code = failure.code;
        let response = CallResponse {
            call_id: versioned.approval.id,
            status: CallStatus::Refused,
            result: Err(failure),
            elapsed_ms: 0,
        };
        versioned.approval.set_result(state, self.components.clock.wall_now(), &response);
        let versioned = approvals.write_approval(versioned).await?;
        let approval = &versioned.approval;
        self.components.ledger.record_refusal(RefusalRecord {
            call_id: approval.id,
            recorded_at: self.components.clock.wall_now(),
            caller: approval.caller.clone(),
            interface: approval.interface,
            tool_name: approval.tool_key.name.to_string(),
            code,
            reason: Some(approval.reason.code.clone()),
        });
        self.retain_ended(approvals, approval.id);
        approvals.notify_waiters(approval.id, Some(&response));
        Ok(versioned)
    }

    /// Voids an approval that no longer matches the current state.
    pub(super) async fn void_approval(
        &self,
        approvals: &ApprovalRegistry,
        versioned: VersionedApproval,
        failure: CallFailure,
    ) -> CallResponse {
        let closure = ApprovalClosure { state: ApprovalState::Void, failure };
        self.close_and_record(approvals, versioned, closure, ApprovalStep::Void).await
    }

    /// Closes a call, and returns its final response even if another caller closed it. The step is
    /// recorded with the failure's message.
    pub(super) async fn close_and_record(
        &self,
        approvals: &ApprovalRegistry,
        versioned: VersionedApproval,
        closure: ApprovalClosure,
        step: ApprovalStep,
    ) -> CallResponse {
        let (id, before) = (versioned.approval.id, versioned.approval.to_response(false));
        let message = closure.failure.message.clone();
        match self.close_call(approvals, versioned, closure).await {
            Ok(versioned) => {
                // A failure to record is logged; the call has not run.
                self.record_step(&versioned.approval, step, None, Some(&message)).ok();
                notify_changed(approvals, &versioned.approval);
                versioned.approval.to_response(false)
            }
            Err(StoreError::Conflict { .. }) => {
                let is_running_here = is_unfinished(approvals.index.phase_of(id));
                match approvals.read_approval(id).await {
                    Ok(Some(versioned)) => versioned.approval.to_response(is_running_here),
                    _ => before,
                }
            }
            Err(error) => {
                tracing::error!(%error, call = %id, "cannot close a pending call");
                before
            }
        }
    }
}
