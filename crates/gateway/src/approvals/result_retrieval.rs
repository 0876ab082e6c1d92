//! Retrieval of a pending call by its caller: its request, its current result, and its final result
//! after a wait.

use std::sync::Arc;
use std::time::Duration;

use identity::Principal;
use tool::call_outcome::{CallFailure, CallResponse};
use tool::ledger::ApprovalStep;
use tool::{CallId, ErrorCode, JsonLimits};

use super::approval_index::ApprovalPhase;
use super::stored_approval::{PendingRequest, StoredApproval, StoredDecision, call_fingerprint};
use super::{ApprovalRegistry, ApprovalState, time_until};
use crate::{CallRequest, Gateway};

/// Returns true if this process has not seen the call's end.
pub(super) fn is_unfinished(phase: Option<ApprovalPhase>) -> bool {
    matches!(phase, Some(ApprovalPhase::Pending | ApprovalPhase::Approved(_)))
}

impl Gateway {
    /// Returns the result of a pending call to its caller, waiting up to `wait`. If the call was
    /// approved and nobody runs it, it is resumed here with this principal.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] for unknown calls and for those of others, and if the store does not
    /// respond.
    pub async fn wait_for_result(
        self: &Arc<Self>,
        principal: &Principal,
        id: CallId,
        wait: Duration,
    ) -> Result<CallResponse, CallFailure> {
        let until = self
            .components
            .clock
            .monotonic_now()
            .saturating_add(wait.min(super::MAX_DECISION_TIMEOUT));
        let missing = || CallFailure::new(ErrorCode::NotFound, format!("no pending call `{id}`"));
        let approvals = self.approvals.as_ref().ok_or_else(missing)?;
        loop {
            // Subscribes before reading, so that no change is missed.
            let mut watched = approvals.index.watch_call(id);
            // Likewise: a call that is unfinished now, and has started when it is read, runs here.
            let phase = approvals.index.phase_of(id);
            let read = approvals.read_approval(id).await?.ok_or_else(missing)?;
            if !read.approval.belongs_to(principal.caller()) {
                return Err(missing());
            }
            let response = read.approval.to_response(is_unfinished(phase));
            match (read.approval.state, phase) {
                (ApprovalState::Pending | ApprovalState::Approved, _)
                    if self.is_expired(approvals, &read.approval) =>
                {
                    self.expire_approval(approvals, read).await;
                    continue;
                }
                (ApprovalState::Approved, Some(ApprovalPhase::Approved(false)))
                    if approvals.index.phase_of(id) == Some(ApprovalPhase::Approved(false)) =>
                {
                    self.resume_for_caller(approvals, principal, &read.approval)?;
                }
                (ApprovalState::Pending | ApprovalState::Approved, _) => {}
                (ApprovalState::Consumed, phase) if is_unfinished(phase) => {}
                _ => {
                    approvals.index.mark_fetched(id);
                    return Ok(response);
                }
            }
            let time = time_until(until, self.components.clock.monotonic_now());
            let Some(watched) = watched.as_mut().filter(|_| !time.is_zero()) else {
                return Ok(response);
            };
            tokio::select! {
                changed = watched.changed() => {
                    let completed = watched.borrow_and_update().clone();
                    match (changed, completed) {
                        (_, Some(response)) => {
                            approvals.index.mark_fetched(id);
                            return Ok(CallResponse::clone(&response));
                        }
                        (Ok(()), None) => {}
                        // Its index entry was removed; the store has the result.
                        (Err(_), None) => tokio::task::yield_now().await,
                    }
                }
                () = tokio::time::sleep(time) => return Ok(response),
                () = approvals.shutdown.cancelled() => return Ok(response),
            }
        }
    }

    /// Resumes an approved call that nobody runs, as its caller. The approval is recorded before the
    /// intent, even if the process ended in between.
    fn resume_for_caller(
        self: &Arc<Self>,
        approvals: &ApprovalRegistry,
        who: &Principal,
        approval: &StoredApproval,
    ) -> Result<(), CallFailure> {
        let decision = approval.decision.as_ref();
        let decided_by = decision.map(StoredDecision::step_caller);
        let note = Some("its caller returned");
        self.record_step(approval, ApprovalStep::Approved, decided_by, note)?;
        approvals.index.set_phase(approval.id, ApprovalPhase::Approved(true), None);
        self.spawn_resumption(who.clone(), approval.id);
        Ok(())
    }

    /// Finds a pending call of this principal that equals `request` and whose result was not
    /// fetched: for clients that can only call again.
    pub fn find_unfetched_call(
        &self,
        principal: &Principal,
        request: &CallRequest,
    ) -> Option<CallId> {
        let index = &self.approvals.as_ref()?.index;
        // There is nearly never one, and then nothing is read.
        if !index.has_unfetched(principal.caller()) {
            return None;
        }
        let args = request.arguments.validate(JsonLimits::ARGUMENTS).ok()?;
        let view = self.view_for(principal, request.caller_type);
        let (entry, _) = view.find_target(&request.target)?;
        let args = crate::pipeline::validate_arguments(entry, args).ok()?;
        let hash = catalog::canonical_json::arguments_digest(args.as_json());
        index.find_unfetched(principal.caller(), call_fingerprint(&entry.tool_key, hash))
    }

    /// Returns the current response of a pending call to its caller, without side effects.
    ///
    /// # Errors
    /// As [`Gateway::wait_for_result`].
    pub async fn approval_result(
        &self,
        principal: &Principal,
        id: CallId,
    ) -> Result<CallResponse, CallFailure> {
        let missing = || CallFailure::new(ErrorCode::NotFound, format!("no pending call `{id}`"));
        let approvals = self.approvals.as_ref().ok_or_else(missing)?;
        let is_running_here = is_unfinished(approvals.index.phase_of(id));
        let read = approvals
            .read_approval(id)
            .await?
            .filter(|read| read.approval.belongs_to(principal.caller()));
        Ok(read.ok_or_else(missing)?.approval.to_response(is_running_here))
    }

    /// Returns the request of a pending call to its caller.
    ///
    /// # Errors
    /// As [`Gateway::wait_for_result`].
    pub async fn pending_request_of(
        &self,
        principal: &Principal,
        id: CallId,
    ) -> Result<PendingRequest, CallFailure> {
        let missing = || CallFailure::new(ErrorCode::NotFound, format!("no pending call `{id}`"));
        let approvals = self.approvals.as_ref().ok_or_else(missing)?;
        let read = approvals
            .read_approval(id)
            .await?
            .filter(|read| read.approval.belongs_to(principal.caller()));
        let StoredApproval { tool_key, arguments, model_call, .. } =
            read.ok_or_else(missing)?.approval;
        Ok(PendingRequest { tool_key, arguments, model_call })
    }
}
