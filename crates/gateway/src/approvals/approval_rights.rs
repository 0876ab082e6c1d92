//! Authorization of pending calls at every interface: visibility, decisions, own calls.

use std::sync::Arc;

use catalog::CatalogEntry;
use identity::{Principal, Right};
use policy::PolicyDecision;
use tool::call_outcome::CallFailure;
use tool::{CallArguments, CallerType, ErrorCode, Org, ToolKey};

use super::approval_details::{is_same_person, keys_and_subjects};
use super::stored_approval::StoredApproval;
use super::{ApprovalRegistry, CredentialStatus};
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
    pub(crate) fn is_visible(&self, org: &Org, tool: &ToolKey, by: CallerType) -> bool {
        let Some([direct, chain]) = &self.views else { return false };
        let view = match by {
            CallerType::Direct => direct,
            CallerType::Chain => chain,
        };
        *self.org == *org && view.find_by_key(tool).is_some()
    }
}

impl Gateway {
    /// Returns the pending calls that this principal sees as an approver.
    pub(crate) fn approver_scope<'a>(&self, who: &'a Principal) -> ApproverScope<'a> {
        let view = |by| self.view_for(who, by);
        let approves = who.has_right(Right::Approve);
        let views = approves.then(|| [view(CallerType::Direct), view(CallerType::Chain)]);
        ApproverScope { org: who.org(), views }
    }

    /// Returns true if this principal sees a pending call: its own, and as an approver those of
    /// tools that it could call itself.
    pub(crate) fn is_visible_to(&self, who: &Principal, kept: &StoredApproval) -> bool {
        let org = &kept.caller.org;
        kept.belongs_to(who.caller())
            || self.approver_scope(who).is_visible(org, &kept.tool_key, kept.caller_type)
    }

    /// Checks that this principal may decide about a call that it sees.
    pub(crate) fn check_may_decide(
        who: &Principal,
        kept: &StoredApproval,
    ) -> Result<(), CallFailure> {
        if !who.has_right(Right::Approve) {
            let told = "the key lacks the right `approve`; an agent's key never has it";
            return Err(CallFailure::new(ErrorCode::Forbidden, told));
        }
        if who.level() < kept.min_level {
            let told = format!(
                "the tool is for the level `{}` and above, and the key has `{}`",
                kept.min_level,
                who.level()
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
        waits: &ApprovalRegistry,
        who: &Principal,
        kept: &StoredApproval,
    ) -> Result<(), CallFailure> {
        let caller = &kept.caller;
        if caller.org != *who.org() || (caller.is_agent && caller.key_id != who.key_id()) {
            return Ok(());
        }
        let created = |creator: Option<&str>, by: &tool::Caller| {
            creator
                .is_some_and(|creator| keys_and_subjects(by).any(|(_, subject)| subject == creator))
        };
        let now = self.components.clock.wall_now();
        let by_approver = match waits.components.principal_resolver.resolve_caller(caller, now) {
            CredentialStatus::Valid(principal) => created(principal.creator(), who.caller()),
            CredentialStatus::Invalid | CredentialStatus::NotStoredHere => false,
        };
        if !is_same_person(who.caller(), caller) && !by_approver && !created(who.creator(), caller)
        {
            return Ok(());
        }
        let told = format!(
            "it is your own call: `{}` made it, and nobody approves an own call, by whatever interface or \
             key; have another person with the right `approve` decide, whose key neither of you created \
             for the other, or make the call with an agent's key (`toolkeep tool call --agent`) and \
             approve that",
            caller.subject.escape_debug()
        );
        Err(CallFailure::new(ErrorCode::Forbidden, told))
    }

    /// Checks that both the approver and the caller may call with the edited arguments: an approver
    /// can do no more by another's call than by its own.
    pub(crate) fn check_may_edit(
        &self,
        waits: &ApprovalRegistry,
        who: &Principal,
        (kept, args): (&StoredApproval, &CallArguments),
    ) -> Result<(), CallFailure> {
        self.check_may_call(who, (kept, args), "you may not")?;
        match waits
            .components
            .principal_resolver
            .resolve_caller(&kept.caller, self.components.clock.wall_now())
        {
            CredentialStatus::Valid(caller) => self.check_may_call(
                &kept.restrict_principal(&caller),
                (kept, args),
                "the caller may not",
            ),
            CredentialStatus::Invalid => {
                let told = "the key that made the call does not hold any more; deny the call";
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
            .ok_or_else(|| refused("the tool is not there for it"))?;
        match self.preview_decision((who, by), (entry, residual), args) {
            (PolicyDecision::Deny(_), why) => Err(refused(&why)),
            (PolicyDecision::Allow(_) | PolicyDecision::RequireApproval(_), _) => Ok(()),
        }
    }
}
