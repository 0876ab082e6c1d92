//! Creation of an approval: index entry, store row, record, notification.

use policy::DecisionReason;
use tool::call_outcome::CallFailure;
use tool::clock::duration_millis;
use tool::ledger::{ApprovalStep, ApprovalStepRecord, StepCaller};
use tool::store::WritePrecondition;
use tool::{CallId, ErrorCode, ExecutionState, JsonLimits};

use super::approval_index::{ApprovalPhase, NewIndexEntry};
use super::stored_approval::{StoredApproval, StoredReason, store_key};
use super::{
    ApprovalDetails, ApprovalEvent, ApprovalEventKind, ApprovalRegistry, ApprovalState,
    MAX_DECISION_TIMEOUT, store_failure,
};
use crate::pipeline::{CallRefusal, EvaluatedCall, policy_refusal};
use crate::{CallRequest, CallTarget, Gateway, ModelCall};
use identity::Principal;

impl Gateway {
    /// Stores a call until a person decides. Nothing of it runs here.
    pub(crate) async fn request_approval(
        &self,
        id: CallId,
        principal: &Principal,
        request: &CallRequest,
        (evaluated, reason): (EvaluatedCall, DecisionReason),
    ) -> Result<ExecutionState, CallRefusal> {
        // A call that continues with client input, or has no arguments of its own to show, has
        // nothing that a person could approve.
        let plain = matches!(request.target, CallTarget::Tool(_) | CallTarget::SourceTool { .. })
            && request.resumption.is_none();
        let Some(waits) = self.approvals.as_ref().filter(|_| plain) else {
            return Err(policy_refusal(
                ErrorCode::ApprovalRequired,
                reason,
                &evaluated.reason_text,
            ));
        };
        let (most, size) =
            (JsonLimits::ARGUMENTS.max_bytes, evaluated.arguments.as_json().bytes().len());
        if size > most {
            let told = format!(
                "the call needs an approval, and its arguments have {size} bytes; the maximum is \
                 {most}"
            );
            return Err(CallRefusal::with_reason(
                CallFailure::new(ErrorCode::TooLarge, told),
                reason,
            ));
        }
        let kept = self.new_approval(id, principal, request, (&evaluated, reason));
        waits
            .create_approval(self, &kept)
            .await
            .map_err(|failure| CallRefusal::with_reason(failure, reason))?;
        Ok(kept.to_pending_state())
    }

    fn new_approval(
        &self,
        id: CallId,
        principal: &Principal,
        request: &CallRequest,
        (looked, reason): (&EvaluatedCall, DecisionReason),
    ) -> StoredApproval {
        let EvaluatedCall { entry, view, arguments: args, .. } = looked;
        let now = self.components.clock.wall_now();
        let wait = self
            .approvals
            .as_ref()
            .map_or(MAX_DECISION_TIMEOUT, |it| it.current_settings().decision_timeout);
        let wait = duration_millis(wait.min(MAX_DECISION_TIMEOUT));
        StoredApproval {
            id,
            state: ApprovalState::Pending,
            caller: principal.caller().clone(),
            restrictions: principal.rights_class().restrictions().clone(),
            caller_type: request.caller_type,
            interface: request.interface,
            parent_id: request.parent_id,
            chain_index: request.chain_index,
            timeout_ms: request.timeout.map(duration_millis),
            tool_key: entry.tool_key.clone(),
            definition_digest: entry.definition_digest,
            policy_digest: view.policy_digest(),
            reason: StoredReason {
                code: reason.as_str().to_owned(),
                text: looked.reason_text.clone().into_owned(),
            },
            approval_reasons: looked.approval_reasons.clone(),
            min_level: entry.tool.traits.min_level,
            side_effects: entry
                .tool
                .traits
                .effects
                .effect_names()
                .into_iter()
                .map(str::to_owned)
                .collect(),
            arguments_digest: catalog::canonical_json::arguments_digest(args.as_json()),
            arguments: args.as_json().clone(),
            created_at: now,
            expires_at: tool::WallTime(now.0.saturating_add(wait)),
            edit_count: 0,
            decision: None,
            call_result: None,
            model_call: request.model_call.clone().filter(ModelCall::is_short),
        }
    }

    /// Records a step of a pending approval.
    pub(crate) fn record_step(
        &self,
        approval: &StoredApproval,
        step: ApprovalStep,
        decided_by: Option<StepCaller>,
        message: Option<&str>,
    ) -> Result<(), CallFailure> {
        let waited = ApprovalStepRecord {
            call_id: approval.id,
            step,
            recorded_at: self.components.clock.wall_now(),
            caller: approval.caller.clone(),
            interface: approval.interface,
            tool_key: approval.tool_key.clone(),
            definition_digest: approval.definition_digest,
            policy_digest: approval.policy_digest,
            reason: approval.reason.code.clone(),
            arguments_digest: self.keyed_hasher.hash_bytes(approval.arguments.bytes()),
            expires_at: approval.expires_at,
            decided_by,
            comment: message.map(str::to_owned),
        };
        self.components.ledger.record_approval_step(&waited).map_err(|error| {
            tracing::error!(%error, call = %approval.id, "cannot record a step of a pending call");
            let message = format!("cannot record the approval: {error}");
            CallFailure::new(ErrorCode::RecordUnavailable, message)
        })
    }
}

impl ApprovalRegistry {
    /// Creates the index entry, the row and the record; a failure leaves nothing behind.
    async fn create_approval(
        &self,
        gateway: &Gateway,
        kept: &StoredApproval,
    ) -> Result<(), CallFailure> {
        let now = gateway.components.clock.monotonic_now();
        let wait =
            std::time::Duration::from_millis(kept.expires_at.0.saturating_sub(kept.created_at.0));
        let id = kept.id;
        self.index.try_insert(
            &NewIndexEntry::from_approval(kept, ApprovalPhase::Pending, now.saturating_add(wait)),
            now,
        )?;
        let put = self
            .store
            .put_value(&store_key(id), WritePrecondition::Absent, Some(kept.encode()))
            .await;
        if let Err(error) = put {
            self.index.remove_entry(id);
            return Err(store_failure(&error));
        }
        if let Err(failure) = gateway.record_step(kept, ApprovalStep::Requested, None, None) {
            self.remove_approval(id).await;
            return Err(failure);
        }
        self.schedule_changed.notify_one();
        self.observer.notify_event(&ApprovalEvent {
            kind: ApprovalEventKind::Requested,
            approval: ApprovalDetails::from_stored(kept),
            scope: kept.scope(),
        });
        tracing::info!(tool = %kept.tool_key.name, call = %id, "call needs an approval");
        Ok(())
    }
}
