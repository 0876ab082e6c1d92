//! Resumption of an approved call: evaluated again in the current snapshot, its approval consumed,
//! executed once.

use std::sync::Arc;
use std::time::Duration;

use identity::Principal;
use policy::PolicyDecision;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tool::call_outcome::{CallFailure, CallResponse, CallStatus};
use tool::clock::duration_millis;
use tool::{CallId, ErrorCode, StoreError};

use super::approval_index::ApprovalPhase;
use super::decisions::notify_changed;
use super::stored_approval::StoredApproval;
use super::{ApprovalRegistry, ApprovalState, VersionedApproval, store_failure};
use crate::execution::ExecutionResult;
use crate::pipeline::{CallRefusal, ReadyCall};
use crate::{CallRequest, Gateway};

/// Delay between attempts while there is no capacity.
const RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Result of an attempt to resume.
enum ResumeAttempt {
    /// The call ended with this response.
    Finished(CallResponse),
    /// There is no capacity now; the approval is unchanged.
    NoCapacity(CallFailure),
}

impl Gateway {
    /// Runs an approved call in its own task. The shutdown of the server waits for it to start.
    pub(crate) fn spawn_resumption(self: &Arc<Self>, principal: Principal, id: CallId) {
        let (gateway, starting) = (Arc::clone(self), self.starting.token());
        drop(
            self.tasks
                .spawn(async move { gateway.resume_with_retry(&principal, id, starting).await }),
        );
    }

    /// Resumes the call, and retries while there is no capacity.
    async fn resume_with_retry(
        self: Arc<Self>,
        who: &Principal,
        id: CallId,
        starting: TaskTrackerToken,
    ) {
        let Some(approvals) = &self.approvals else { return };
        let (mut delay, mut starting) = (RETRY_DELAY, Some(starting));
        loop {
            match Box::pin(self.resume_call(approvals, who, (id, starting.take()))).await {
                Ok(ResumeAttempt::Finished(response)) => {
                    return approvals.notify_waiters(id, Some(&response));
                }
                Ok(ResumeAttempt::NoCapacity(failure)) if failure.code == ErrorCode::Busy => {
                    tokio::time::sleep(delay).await;
                    delay = (delay * 2).min(MAX_RETRY_DELAY);
                }
                Ok(ResumeAttempt::NoCapacity(failure)) | Err(failure) => {
                    tracing::warn!(
                        call = %id,
                        "an approved call did not resume: {}",
                        failure.message
                    );
                    approvals.index.set_phase(id, ApprovalPhase::Approved(false), None);
                    return approvals.notify_waiters(id, None);
                }
            }
        }
    }

    async fn resume_call(
        self: &Arc<Self>,
        approvals: &ApprovalRegistry,
        who: &Principal,
        (id, starting): (CallId, Option<TaskTrackerToken>),
    ) -> Result<ResumeAttempt, CallFailure> {
        let missing = || CallFailure::new(ErrorCode::NotFound, format!("no pending call `{id}`"));
        let read = approvals.read_approval(id).await?.ok_or_else(missing)?;
        if read.approval.state != ApprovalState::Approved {
            return Ok(ResumeAttempt::Finished(read.approval.to_response(false)));
        }
        if self.is_expired(approvals, &read.approval) {
            return Ok(ResumeAttempt::Finished(self.expire_approval(approvals, read).await));
        }
        let now = self.components.clock.wall_now();
        let Some(who) =
            approvals.principal_resolver.renew_principal(&read.approval.caller, who, now)
        else {
            let failure = CallFailure::new(ErrorCode::ApprovalVoid, super::CREDENTIAL_ENDED);
            return Ok(ResumeAttempt::Finished(self.void_approval(approvals, read, failure).await));
        };
        let who = read.approval.restrict_principal(&who);
        let request = Box::new(read.approval.to_request());
        let ready = match self.reevaluate(&who, &request, &read.approval) {
            Ok(ready) => ready,
            Err(refusal) if refusal.is_temporary => {
                return Ok(ResumeAttempt::NoCapacity(refusal.failure));
            }
            Err(refusal) => {
                return Ok(ResumeAttempt::Finished(
                    self.void_approval(approvals, read, refusal.failure).await,
                ));
            }
        };
        drop(starting);
        let read = match self.consume_approval(approvals, read).await {
            Ok(read) => read,
            // Another process runs it, or ran it.
            Err(StoreError::Conflict { .. }) => {
                let read = approvals.read_approval(id).await?.ok_or_else(missing)?;
                return Ok(ResumeAttempt::Finished(read.approval.to_response(false)));
            }
            Err(error) => return Err(store_failure(&error)),
        };
        let started = self.components.clock.monotonic_now();
        let (status, result) = self.record_and_execute(&who, request, ready, &read.approval).await;
        let elapsed = self.components.clock.monotonic_now().saturating_duration_since(started);
        let elapsed_ms = duration_millis(elapsed);
        let response = CallResponse { call_id: id, status, result, elapsed_ms };
        // The call has ended and is recorded; waiters need not wait until it is stored.
        approvals.notify_waiters(id, Some(&response));
        self.store_result(approvals, read, &response).await;
        Ok(ResumeAttempt::Finished(response))
    }

    /// Evaluates the call again before it runs; the approval covers the reasons it was given for,
    /// and no others.
    fn reevaluate(
        &self,
        who: &Principal,
        request: &CallRequest,
        approval: &StoredApproval,
    ) -> Result<Box<ReadyCall>, ResumeFailure> {
        let void = |message: String| {
            ResumeFailure::permanent(CallFailure::new(ErrorCode::ApprovalVoid, message))
        };
        let evaluated =
            self.evaluate_call(who, request, self.read_clocks()).map_err(|refusal| {
                let message = format!(
                    "the call's conditions changed while it was pending: \
                    {}",
                    refusal.failure.message
                );
                ResumeFailure::permanent(CallFailure::new(refusal.failure.code, message))
            })?;
        if evaluated.entry.tool_key != approval.tool_key {
            return Err(void("another tool took the name while the call was pending".to_owned()));
        }
        if evaluated.entry.definition_digest != approval.definition_digest {
            let message = "the tool's definition changed while the call was pending; call again";
            return Err(void(message.to_owned()));
        }
        if catalog::canonical_json::arguments_digest(evaluated.arguments.as_json())
            != approval.arguments_digest
        {
            return Err(void("the stored arguments differ from the approved ones".to_owned()));
        }
        match evaluated.decision {
            PolicyDecision::Allow(_) => {}
            PolicyDecision::RequireApproval(_) => {
                if let Some(new) = evaluated
                    .approval_reasons
                    .iter()
                    .find(|reason| !approval.approval_reasons.contains(reason))
                {
                    let message = format!(
                        "the call now needs an approval for another reason: {} (`{new}`); call \
                         again",
                        evaluated.reason_text
                    );
                    return Err(void(message));
                }
            }
            PolicyDecision::Deny(_) => {
                let message = format!(
                    "the call's conditions changed while it was pending: \
                    {}",
                    evaluated.reason_text
                );
                return Err(ResumeFailure::permanent(CallFailure::new(ErrorCode::Denied, message)));
            }
        }
        let id = (approval.id, "approved");
        self.acquire_permit(id, who, request, evaluated)
            .map_err(|failure| ResumeFailure { failure, is_temporary: true })
    }

    /// Consumes the approval before the call starts.
    async fn consume_approval(
        &self,
        approvals: &ApprovalRegistry,
        mut read: VersionedApproval,
    ) -> Result<VersionedApproval, StoreError> {
        read.approval.state = ApprovalState::Consumed;
        approvals.write_approval(read).await
    }

    async fn record_and_execute(
        self: &Arc<Self>,
        who: &Principal,
        request: Box<CallRequest>,
        ready: Box<ReadyCall>,
        approval: &StoredApproval,
    ) -> ExecutionResult {
        match self.record_intent(who, &request, &ready, self.components.clock.wall_now()).await {
            Err(failure) => {
                tracing::error!(
                    call = %approval.id,
                    "an approval was consumed, but the call did not run"
                );
                (CallStatus::Refused, Err(failure))
            }
            Ok(ticket) => self.execute_call(who, request, ready, ticket).await,
        }
    }

    async fn store_result(
        &self,
        approvals: &ApprovalRegistry,
        mut read: VersionedApproval,
        response: &CallResponse,
    ) {
        let id = read.approval.id;
        let now = self.components.clock.wall_now();
        read.approval.set_result(ApprovalState::Done, now, response);
        match approvals.write_approval(read).await {
            Ok(read) => drop(notify_changed(approvals, &read.approval)),
            // The record has it; only a caller who comes later gets no result.
            Err(error) => tracing::error!(%error, call = %id, "cannot store the result"),
        }
        self.retain_ended(approvals, id);
    }
}

/// Reason why an approved call is not resumed.
struct ResumeFailure {
    failure: CallFailure,
    /// True if it may be resumed later.
    is_temporary: bool,
}

impl ResumeFailure {
    fn permanent(failure: CallFailure) -> Self {
        Self { failure, is_temporary: false }
    }
}

impl From<CallRefusal> for ResumeFailure {
    fn from(refusal: CallRefusal) -> Self {
        Self::permanent(refusal.failure)
    }
}
