//! Authorization of pending calls at every interface: visibility, decisions, own calls.

use std::sync::Arc;

use catalog::Entry;
use identity::{Principal, Right};
use policy::Decision;
use tool::outcome::Failure;
use tool::{Args, CallerType, Code, Org, ToolKey};

use super::kept::Kept;
use super::shown::{behind, same};
use super::{Holder, Waits};
use crate::{Gateway, View};

/// Pending calls that an approver sees: those of tools in its own view.
#[derive(Debug)]
pub(crate) struct Sight<'a> {
    org: &'a Org,
    /// Views for direct calls and for chains; `None` without the right to approve.
    views: Option<[Arc<View>; 2]>,
}

impl Sight<'_> {
    /// Returns true if the called tool of this organisation and caller type is in its view.
    pub(crate) fn sees(&self, org: &Org, tool: &ToolKey, by: CallerType) -> bool {
        let Some([direct, chain]) = &self.views else { return false };
        let view = match by {
            CallerType::Direct => direct,
            CallerType::Chain => chain,
        };
        *self.org == *org && view.find_key(tool).is_some()
    }
}

impl Gateway {
    /// Returns the pending calls that this principal sees as an approver.
    pub(crate) fn sight<'a>(&self, who: &'a Principal) -> Sight<'a> {
        let view = |by| self.view(who, by);
        let approves = who.may(Right::Approve);
        let views = approves.then(|| [view(CallerType::Direct), view(CallerType::Chain)]);
        Sight { org: who.org(), views }
    }

    /// Returns true if this principal sees a pending call: its own, and as an approver those of
    /// tools that it could call itself.
    pub(crate) fn sees(&self, who: &Principal, kept: &Kept) -> bool {
        let org = &kept.caller.org;
        kept.is_of(who.caller()) || self.sight(who).sees(org, &kept.tool, kept.caller_type)
    }

    /// Checks that this principal may decide about a call that it sees.
    pub(crate) fn may_decide(who: &Principal, kept: &Kept) -> Result<(), Failure> {
        if !who.may(Right::Approve) {
            let told = "the key lacks the right `approve`; an agent's key never has it";
            return Err(Failure::new(Code::Forbidden, told));
        }
        if who.level() < kept.level {
            let told = format!(
                "the tool is for the level `{}` and above, and the key has `{}`",
                kept.level,
                who.level()
            );
            return Err(Failure::new(Code::Forbidden, told));
        }
        Ok(())
    }

    /// Refuses the approval of an own call at every interface. A call by an agent's key is never a
    /// person's own: its person is the one to decide.
    ///
    /// An own call is one by the same key, by the same subject, by one who acts for the other, or
    /// by a key that the other subject created.
    pub(crate) fn not_own(
        &self,
        waits: &Waits,
        who: &Principal,
        kept: &Kept,
    ) -> Result<(), Failure> {
        let caller = &kept.caller;
        if caller.org != *who.org() || (caller.agent && caller.key != who.key()) {
            return Ok(());
        }
        let created = |creator: Option<&str>, by: &tool::Caller| {
            creator.is_some_and(|creator| behind(by).any(|(_, subject)| subject == creator))
        };
        let now = self.parts.clock.wall();
        let by_approver = match waits.holding.holders.holder(caller, now) {
            Holder::Holds(principal) => created(principal.creator(), who.caller()),
            Holder::Gone | Holder::Elsewhere => false,
        };
        if !same(who.caller(), caller) && !by_approver && !created(who.creator(), caller) {
            return Ok(());
        }
        let told = format!(
            "it is your own call: `{}` made it, and nobody approves an own call, by whatever interface or \
             key; have another person with the right `approve` decide, whose key neither of you created \
             for the other, or make the call with an agent's key (`toolkeep tool call --agent`) and \
             approve that",
            caller.subject.escape_debug()
        );
        Err(Failure::new(Code::Forbidden, told))
    }

    /// Checks that both the approver and the caller may call with the edited arguments: an approver
    /// can do no more by another's call than by its own.
    pub(crate) fn may_edit(
        &self,
        waits: &Waits,
        who: &Principal,
        (kept, args): (&Kept, &Args),
    ) -> Result<(), Failure> {
        self.may_call(who, (kept, args), "you may not")?;
        match waits.holding.holders.holder(&kept.caller, self.parts.clock.wall()) {
            Holder::Holds(caller) => {
                self.may_call(&kept.as_called(&caller), (kept, args), "the caller may not")
            }
            Holder::Gone => {
                let told = "the key that made the call does not hold any more; deny the call";
                Err(Failure::new(Code::Conflict, told))
            }
            // It is decided when its caller presents the credential again.
            Holder::Elsewhere => Ok(()),
        }
    }

    fn may_call(
        &self,
        who: &Principal,
        (kept, args): (&Kept, &Args),
        whose: &str,
    ) -> Result<(), Failure> {
        let by = kept.caller_type;
        let view = self.view(who, by);
        let refused = |why: &str| {
            let told = format!("{whose} call `{}` with these arguments: {why}", kept.tool.name);
            Failure::new(Code::Forbidden, told)
        };
        let (entry, residual): (&Arc<Entry>, _) =
            view.find_key(&kept.tool).ok_or_else(|| refused("the tool is not there for it"))?;
        match self.consider((who, by), (entry, residual), args) {
            (Decision::Deny(_), why) => Err(refused(&why)),
            (Decision::Allow(_) | Decision::Hold(_), _) => Ok(()),
        }
    }
}
