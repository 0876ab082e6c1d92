//! Decisions on approvals: list, approve, confirm, deny, withdraw. Each is one
//! compare-and-set.

use std::sync::Arc;

use identity::Principal;
use tool::call_outcome::CallFailure;
use tool::ledger::{ApprovalStep, StepCaller};
use tool::{CallId, CallerType, Digest, ErrorCode, Interface, Org, StoreError, ToolKey};

use super::approval_closure::ApprovalClosure;
use super::approval_index::ApprovalPhase;
use super::stored_approval::{StoredApproval, StoredDecision};
use super::{
    ApprovalDetails, ApprovalEvent, ApprovalEventKind, ApprovalPage, ApprovalRegistry,
    ApprovalState, CredentialStatus, VersionedApproval, store_failure,
};
use crate::{Gateway, sanitizer};

/// Maximum length of a reason in characters.
const MAX_REASON_CHARS: usize = 1_000;
/// Maximum number of approvals per page.
const MAX_PAGE_SIZE: usize = 200;

impl Gateway {
    /// Lists the pending calls that this principal may see: its own, and with the right to approve
    /// those of its organisation whose tool is in its view. Newest first, after `before`.
    ///
    /// # Errors
    /// If the store does not respond.
    pub async fn list_approvals(
        &self,
        principal: &Principal,
        only_pending: bool,
        (before, limit): (Option<CallId>, usize),
    ) -> Result<ApprovalPage, CallFailure> {
        let Some(waits) = &self.approvals else {
            return Ok(ApprovalPage { approvals: Vec::new(), next: None });
        };
        let sight = self.approver_scope(principal);
        let sees = |org: &Org, (tool, by): &(ToolKey, CallerType)| sight.is_visible(org, tool, *by);
        let ids = waits.index.list_ids((principal.caller(), sees), |id, phase, _| {
            (!only_pending || phase == ApprovalPhase::Pending)
                && before.is_none_or(|before| id < before)
        });
        let (mut approvals, mut last, limit) = (Vec::new(), None, limit.clamp(1, MAX_PAGE_SIZE));
        for id in ids {
            if approvals.len() >= limit {
                return Ok(ApprovalPage { approvals, next: last });
            }
            last = Some(id);
            // It may have been removed meanwhile.
            let Some(read) = waits.read_approval(id).await? else { continue };
            let Some(read) = self.expire_if_due(waits, read).await? else { continue };
            if !only_pending || read.approval.state == ApprovalState::Pending {
                approvals.push(ApprovalDetails::from_stored(&read.approval));
            }
        }
        Ok(ApprovalPage { approvals, next: None })
    }

    /// Expires a call whose time is over by wall-clock time; the expiry task uses the monotonic
    /// clock.
    async fn expire_if_due(
        &self,
        waits: &ApprovalRegistry,
        read: VersionedApproval,
    ) -> Result<Option<VersionedApproval>, CallFailure> {
        let open = matches!(read.approval.state, ApprovalState::Pending | ApprovalState::Approved);
        if !open || !self.is_expired(waits, &read.approval) {
            return Ok(Some(read));
        }
        let id = read.approval.id;
        self.expire_approval(waits, read).await;
        waits.read_approval(id).await
    }

    /// Returns one pending call that this principal may see.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] for unknown and for invisible calls.
    pub async fn get_approval(
        &self,
        principal: &Principal,
        id: CallId,
    ) -> Result<ApprovalDetails, CallFailure> {
        let (waits, read) = self.load_visible(principal, id).await?;
        let read = self.expire_if_due(waits, read).await?;
        read.map(|read| ApprovalDetails::from_stored(&read.approval))
            .ok_or_else(|| no_such_approval(id))
    }

    /// Returns the tool of a pending call, for code that waits for its source to be listed. It must
    /// not be shown: no rights are checked.
    pub async fn pending_tool_key(&self, id: CallId) -> Option<ToolKey> {
        let read = self.approvals.as_ref()?.read_approval(id).await.ok()??;
        Some(read.approval.tool_key)
    }

    pub(super) async fn load_visible(
        &self,
        who: &Principal,
        id: CallId,
    ) -> Result<(&ApprovalRegistry, VersionedApproval), CallFailure> {
        let missing = || no_such_approval(id);
        let waits = self.approvals.as_ref().ok_or_else(missing)?;
        let read = waits.read_approval(id).await?.ok_or_else(missing)?;
        if self.is_visible_to(who, &read.approval) { Ok((waits, read)) } else { Err(missing()) }
    }

    /// Loads a call that this principal may decide about now.
    pub(super) async fn load_decidable(
        &self,
        who: &Principal,
        id: CallId,
        seen: Option<Digest>,
    ) -> Result<(&ApprovalRegistry, VersionedApproval), CallFailure> {
        let (waits, read) = self.load_visible(who, id).await?;
        Self::check_may_decide(who, &read.approval)?;
        let read = self.require_pending(waits, read).await?;
        if seen.is_some_and(|seen| seen != read.approval.arguments_digest) {
            let told = "the arguments have changed since you read them; read them again";
            return Err(CallFailure::new(ErrorCode::Conflict, told));
        }
        Ok((waits, read))
    }

    /// Checks that a call is pending and not expired.
    async fn require_pending(
        &self,
        waits: &ApprovalRegistry,
        read: VersionedApproval,
    ) -> Result<VersionedApproval, CallFailure> {
        let id = read.approval.id;
        if read.approval.state != ApprovalState::Pending {
            return Err(already_decided(&read.approval));
        }
        if self.is_expired(waits, &read.approval) {
            self.expire_approval(waits, read).await;
            return Err(CallFailure::new(
                ErrorCode::Conflict,
                format!("the approval `{id}` has expired"),
            ));
        }
        Ok(read)
    }

    /// Approves a call, which then runs once: immediately, if its caller's credential is stored
    /// here. `reviewed` is the digest of the arguments that the approver reviewed, if stated.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] if it cannot see the call, [`ErrorCode::Forbidden`] without the right or for
    /// an own call, [`ErrorCode::Conflict`] if it is decided, expired or changed.
    pub async fn approve_call(
        self: &Arc<Self>,
        (principal, interface): (&Principal, Interface),
        id: CallId,
        reviewed: Option<Digest>,
    ) -> Result<ApprovalDetails, CallFailure> {
        let (waits, read) = self.load_decidable(principal, id, reviewed).await?;
        self.check_not_own_call(waits, principal, &read.approval)?;
        self.apply_approval(waits, read, step_caller(principal, interface)).await
    }

    /// Confirms or refuses a call by the caller's own client, if the operator allows that for this
    /// key.
    ///
    /// # Errors
    /// [`ErrorCode::Forbidden`] if not, and as [`Gateway::approve_call`].
    pub async fn confirm_as_client(
        self: &Arc<Self>,
        (principal, interface): (&Principal, Interface),
        id: CallId,
        agrees: bool,
    ) -> Result<ApprovalDetails, CallFailure> {
        let (waits, read) = self.load_visible(principal, id).await?;
        if !self.allows_client_confirmation(principal)
            || !read.approval.belongs_to(principal.caller())
        {
            let told = "this key's client cannot approve calls; a person must approve it";
            return Err(CallFailure::new(ErrorCode::Forbidden, told));
        }
        let read = self.require_pending(waits, read).await?;
        let by = step_caller(principal, interface);
        if agrees {
            return self.apply_approval(waits, read, by).await;
        }
        self.apply_denial(waits, read, by, "the client denied the call").await
    }

    /// Returns true if this key's client may give the approval itself.
    pub fn allows_client_confirmation(&self, principal: &Principal) -> bool {
        let waits = self.approvals.as_ref();
        let key = principal.key_id();
        waits.is_some_and(|it| it.current_settings().client_confirming_keys.contains(key))
    }

    async fn apply_approval(
        self: &Arc<Self>,
        waits: &ApprovalRegistry,
        mut read: VersionedApproval,
        by: StepCaller,
    ) -> Result<ApprovalDetails, CallFailure> {
        let id = read.approval.id;
        read.approval.state = ApprovalState::Approved;
        read.approval.decision = Some(self.new_decision(by.clone(), None));
        let read = waits.write_approval(read).await.map_err(decision_conflict)?;
        let now = self.components.clock.wall_now();
        let holder = waits.principal_resolver.resolve_caller(&read.approval.caller, now);
        let runs = matches!(holder, CredentialStatus::Valid(_));
        waits.index.set_phase(id, ApprovalPhase::Approved(runs), None);
        if let Err(failure) =
            self.record_step(&read.approval, ApprovalStep::Approved, Some(by), None)
        {
            waits.index.set_phase(id, ApprovalPhase::Approved(false), None);
            return Err(failure);
        }
        let mut shown = notify_changed(waits, &read.approval);
        match holder {
            CredentialStatus::Valid(principal) => {
                self.spawn_resumption(principal, id);
            }
            CredentialStatus::Invalid => {
                self.void_approval(
                    waits,
                    read,
                    CallFailure::new(ErrorCode::ApprovalVoid, super::CREDENTIAL_ENDED),
                )
                .await;
                if let Some(read) = waits.read_approval(id).await? {
                    shown = ApprovalDetails::from_stored(&read.approval);
                }
            }
            CredentialStatus::NotStoredHere => waits.notify_waiters(id, None),
        }
        Ok(shown)
    }

    /// Denies a call, which then never runs.
    ///
    /// # Errors
    /// As [`Gateway::approve_call`].
    pub async fn deny_call(
        &self,
        (principal, interface): (&Principal, Interface),
        id: CallId,
        reason: Option<&str>,
    ) -> Result<ApprovalDetails, CallFailure> {
        let (waits, read) = self.load_decidable(principal, id, None).await?;
        let reason = reason.map(sanitize_reason).unwrap_or_default();
        self.apply_denial(waits, read, step_caller(principal, interface), &reason).await
    }

    /// Withdraws a pending call of this caller; it then never runs.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] for unknown calls and for those of others, [`ErrorCode::Conflict`] if it was
    /// decided.
    pub async fn withdraw_call(
        &self,
        principal: &Principal,
        id: CallId,
    ) -> Result<ApprovalDetails, CallFailure> {
        let (waits, read) = self.load_visible(principal, id).await?;
        if !read.approval.belongs_to(principal.caller()) {
            return Err(CallFailure::new(ErrorCode::NotFound, format!("no approval `{id}`")));
        }
        let mut read = self.require_pending(waits, read).await?;
        let told = "the caller cancelled the call";
        let by = step_caller(principal, read.approval.interface);
        read.approval.decision = Some(self.new_decision(by.clone(), Some(told.to_owned())));
        let failure = CallFailure::new(ErrorCode::ApprovalDenied, told);
        let closure = ApprovalClosure { state: ApprovalState::Denied, failure };
        let read = self.close_call(waits, read, closure).await.map_err(decision_conflict)?;
        self.record_step(&read.approval, ApprovalStep::Denied, Some(by), Some(told))?;
        Ok(notify_changed(waits, &read.approval))
    }

    async fn apply_denial(
        &self,
        waits: &ApprovalRegistry,
        mut read: VersionedApproval,
        by: StepCaller,
        reason: &str,
    ) -> Result<ApprovalDetails, CallFailure> {
        let told = Some(reason).filter(|reason| !reason.is_empty());
        let message = match told {
            Some(reason) => format!("the call was denied by a person: {reason}"),
            None => "the call was denied by a person".to_owned(),
        };
        let failure = CallFailure::new(ErrorCode::ApprovalDenied, message);
        read.approval.decision = Some(self.new_decision(by.clone(), told.map(str::to_owned)));
        let closure = ApprovalClosure { state: ApprovalState::Denied, failure };
        let read = self.close_call(waits, read, closure).await.map_err(decision_conflict)?;
        self.record_step(&read.approval, ApprovalStep::Denied, Some(by), told)?;
        Ok(notify_changed(waits, &read.approval))
    }

    fn new_decision(&self, by: StepCaller, told: Option<String>) -> StoredDecision {
        StoredDecision {
            decided_by: by.caller,
            interface: by.interface,
            decided_at: self.components.clock.wall_now(),
            comment: told,
        }
    }
}

pub(super) fn step_caller(principal: &Principal, interface: Interface) -> StepCaller {
    StepCaller { caller: principal.caller().clone(), interface }
}

/// Notifies the observer of a change.
pub(crate) fn notify_changed(
    approvals: &ApprovalRegistry,
    approval: &StoredApproval,
) -> ApprovalDetails {
    let shown = ApprovalDetails::from_stored(approval);
    approvals.observer.notify_event(&ApprovalEvent {
        kind: ApprovalEventKind::Changed,
        approval: shown.clone(),
        scope: approval.scope(),
    });
    shown
}

fn no_such_approval(id: CallId) -> CallFailure {
    CallFailure::new(ErrorCode::NotFound, format!("no approval `{id}`"))
}

/// Returns the error of a decision that comes too late.
fn already_decided(kept: &StoredApproval) -> CallFailure {
    let who = kept.decision.as_ref().map(|decision| decision.decided_by.subject.escape_debug());
    let by = who.map(|who| format!(" by `{who}`")).unwrap_or_default();
    let told = match kept.state {
        ApprovalState::Pending => "was changed by someone else".to_owned(),
        ApprovalState::Expired => "has expired".to_owned(),
        ApprovalState::Void => "is void: the approved call no longer exists".to_owned(),
        ApprovalState::Denied => format!("was denied{by}"),
        ApprovalState::Approved | ApprovalState::Consumed | ApprovalState::Done => {
            format!("was approved{by}")
        }
    };
    CallFailure::new(ErrorCode::Conflict, format!("the approval `{}` {told}", kept.id))
}

/// Returns the error of a decision that lost against another.
pub(super) fn decision_conflict(error: StoreError) -> CallFailure {
    match error {
        StoreError::Conflict { .. } => CallFailure::new(
            ErrorCode::Conflict,
            "someone else decided or changed it first; read it again",
        ),
        error @ StoreError::Unavailable(_) => store_failure(&error),
    }
}

/// Sanitizes a person's text for records and responses.
fn sanitize_reason(text: &str) -> String {
    let cut: String = text.chars().take(MAX_REASON_CHARS).collect();
    sanitizer::sanitize_text(&cut)
}
