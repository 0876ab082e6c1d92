//! Authorization of pending calls at every interface: visibility, decisions, own calls.

use std::sync::Arc;

use catalog::CatalogEntry;
use identity::{Principal, Right};
use policy::PolicyDecision;
use tool::call_outcome::CallFailure;
use tool::{CallArguments, CallerType, ErrorCode, Org, ToolKey};

use super::approval_details::{is_same_person, keys_and_subjects};
use super::stored_approval::StoredApproval;
use super::{ApprovalRegistry, ApprovalScope, CredentialStatus};
use crate::{CatalogView, Gateway};

/// Pending calls that an approver sees: those of tools in its own view.
#[derive(Debug)]
pub(crate) struct ApproverScope<'a> {
    org: &'a Org,
    /// Views for direct calls and for chains; `None` without the right to approve.
    views: Option<[Arc<CatalogView>; 2]>,
}

impl ApproverScope<'_> {
    /// Returns true if the called tool of this organisation and caller type is in its view.
    pub(crate) fn is_visible(&self, org: &Org, tool: &ToolKey, caller_type: CallerType) -> bool {
        let Some([direct, chain]) = &self.views else { return false };
        let view = match caller_type {
            CallerType::Direct => direct,
            CallerType::Chain => chain,
        };
        *self.org == *org && view.find_by_key(tool).is_some()
    }
}

impl Gateway {
    /// Returns the pending calls that this principal sees as an approver.
    pub(crate) fn approver_scope<'a>(&self, principal: &'a Principal) -> ApproverScope<'a> {
        let view = |by| self.view_for(principal, by);
        let approves = principal.has_right(Right::Approve);
        let views = approves.then(|| [view(CallerType::Direct), view(CallerType::Chain)]);
        ApproverScope { org: principal.org(), views }
    }

    /// Returns true if this principal sees a pending call: its own, and as an approver those of
    /// tools that it could call itself.
    pub(crate) fn is_visible_to(&self, principal: &Principal, approval: &StoredApproval) -> bool {
        self.sees_approval(principal, &approval.scope())
    }

    /// Returns true if this principal sees the pending call of this scope.
    pub fn sees_approval(&self, principal: &Principal, scope: &ApprovalScope) -> bool {
        scope.caller.has_credential_of(principal.caller())
            || self.approver_scope(principal).is_visible(
                &scope.caller.org,
                &scope.tool_key,
                scope.caller_type,
            )
    }

    /// Checks that this principal may decide about a call that it sees.
    pub(crate) fn check_may_decide(
        principal: &Principal,
        approval: &StoredApproval,
    ) -> Result<(), CallFailure> {
        if !principal.has_right(Right::Approve) {
            let told = "the key lacks the right `approve`; an agent's key cannot have it";
            return Err(CallFailure::new(ErrorCode::Forbidden, told));
        }
        if principal.level() < approval.min_level {
            let told = format!(
                "the tool requires the level `{}`, but the key has `{}`",
                approval.min_level,
                principal.level()
            );
            return Err(CallFailure::new(ErrorCode::Forbidden, told));
        }
        Ok(())
    }

    /// Refuses the approval of an own call at every interface. A call by an agent's key is never a
    /// person's own: its person is the one to decide.
    ///
    /// An own call is one by the same key, by the same subject, by one who acts for the other, or
    /// by a key that the other subject created.
    pub(crate) fn check_not_own_call(
        &self,
        approvals: &ApprovalRegistry,
        approver: &Principal,
        approval: &StoredApproval,
    ) -> Result<(), CallFailure> {
        let caller = &approval.caller;
        if caller.org != *approver.org() || (caller.is_agent && caller.key_id != approver.key_id())
        {
            return Ok(());
        }
        let created = |creator: Option<&str>, by: &tool::Caller| {
            creator
                .is_some_and(|creator| keys_and_subjects(by).any(|(_, subject)| subject == creator))
        };
        let now = self.components.clock.wall_now();
        let by_approver = match approvals.principal_resolver.resolve_caller(caller, now) {
            CredentialStatus::Valid(principal) => created(principal.creator(), approver.caller()),
            CredentialStatus::Invalid | CredentialStatus::NotStoredHere => false,
        };
        if !is_same_person(approver.caller(), caller)
            && !by_approver
            && !created(approver.creator(), caller)
        {
            return Ok(());
        }
        let told = format!(
            "you cannot approve your own call, which `{}` made: ask another person with the right \
             `approve`, where neither of you created the other's key, or make the call with an \
             agent's key (`toolkeep tool call --agent`) and approve that",
            caller.subject.escape_debug()
        );
        Err(CallFailure::new(ErrorCode::Forbidden, told))
    }

    /// Checks that both the approver and the caller may call with the edited arguments: an approver
    /// can do no more by another's call than by its own.
    pub(crate) fn check_may_edit(
        &self,
        approvals: &ApprovalRegistry,
        principal: &Principal,
        (approval, args): (&StoredApproval, &CallArguments),
    ) -> Result<(), CallFailure> {
        self.check_may_call(principal, (approval, args), "you may not")?;
        match approvals
            .principal_resolver
            .resolve_caller(&approval.caller, self.components.clock.wall_now())
        {
            CredentialStatus::Valid(caller) => self.check_may_call(
                &approval.restrict_principal(&caller),
                (approval, args),
                "the caller may not",
            ),
            CredentialStatus::Invalid => {
                let told = "the key that made the call is no longer valid; deny the call";
                Err(CallFailure::new(ErrorCode::Conflict, told))
            }
            // It is decided when its caller presents the credential again.
            CredentialStatus::NotStoredHere => Ok(()),
        }
    }

    fn check_may_call(
        &self,
        who: &Principal,
        (kept, args): (&StoredApproval, &CallArguments),
        whose: &str,
    ) -> Result<(), CallFailure> {
        let by = kept.caller_type;
        let view = self.view_for(who, by);
        let refused = |why: &str| {
            let told = format!("{whose} call `{}` with these arguments: {why}", kept.tool_key.name);
            CallFailure::new(ErrorCode::Forbidden, told)
        };
        let (entry, residual): (&Arc<CatalogEntry>, _) = view
            .find_by_key(&kept.tool_key)
            .ok_or_else(|| refused("the tool is not available to it"))?;
        match self.preview_decision((who, by), (entry, residual), args) {
            (PolicyDecision::Deny(_), why) => Err(refused(&why)),
            (PolicyDecision::Allow(_) | PolicyDecision::RequireApproval(_), _) => Ok(()),
        }
    }
}
