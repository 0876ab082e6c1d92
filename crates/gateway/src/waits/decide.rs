//! Decisions on approvals: list, approve, confirm, deny, withdraw, edit. Each is one
//! compare-and-set.

use std::sync::Arc;

use identity::Principal;
use tool::ledger::WaitStep;
use tool::outcome::Failure;
use tool::{
    Args, CallId, Caller, CallerType, Code, Digest, Interface, Json, Org, StoreError, ToolKey,
};

use super::index::Phase;
use super::kept::{Decision, Kept};
use super::{Event, Heard, Holder, Page, Read, Shown, State, Waits, unavailable};
use crate::{Gateway, shape};

/// Maximum length of a reason in characters.
const REASON: usize = 1_000;
/// Maximum number of approvals per page.
const PAGE: usize = 200;

impl Gateway {
    /// Lists the pending calls that this principal may see: its own, and with the right to approve
    /// those of its organisation whose tool is in its view. Newest first, after `before`.
    ///
    /// # Errors
    /// If the store does not respond.
    pub async fn approvals(
        &self,
        who: &Principal,
        pending: bool,
        (before, limit): (Option<CallId>, usize),
    ) -> Result<Page, Failure> {
        let Some(waits) = &self.waits else {
            return Ok(Page { approvals: Vec::new(), next: None });
        };
        let sight = self.sight(who);
        let sees = |org: &Org, (tool, by): &(ToolKey, CallerType)| sight.sees(org, tool, *by);
        let ids = waits.index.list((who.caller(), sees), pending, before);
        let (mut approvals, mut last, limit) = (Vec::new(), None, limit.clamp(1, PAGE));
        for id in ids {
            if approvals.len() >= limit {
                return Ok(Page { approvals, next: last });
            }
            last = Some(id);
            // It may have been removed meanwhile.
            let Some(read) = waits.read(id).await? else { continue };
            let Some(read) = self.expired_by_now(waits, read).await? else { continue };
            if !pending || read.kept.state == State::Pending {
                approvals.push(Shown::of(&read.kept));
            }
        }
        Ok(Page { approvals, next: None })
    }

    /// Expires a call whose time is over by wall-clock time; the expiry task uses the monotonic
    /// clock.
    async fn expired_by_now(&self, waits: &Waits, read: Read) -> Result<Option<Read>, Failure> {
        let open = matches!(read.kept.state, State::Pending | State::Approved);
        if !open || !self.is_over(waits, &read.kept) {
            return Ok(Some(read));
        }
        let id = read.kept.id;
        self.expire(waits, read).await;
        waits.read(id).await
    }

    /// Returns one pending call that this principal may see.
    ///
    /// # Errors
    /// [`Code::NotFound`] for unknown and for invisible calls.
    pub async fn approval(&self, who: &Principal, id: CallId) -> Result<Shown, Failure> {
        let (waits, read) = self.seen(who, id).await?;
        let read = self.expired_by_now(waits, read).await?;
        read.map(|read| Shown::of(&read.kept)).ok_or_else(|| missing(id))
    }

    /// Returns the tool of a pending call, for code that waits for its source to be listed. It must
    /// not be shown: no rights are checked.
    pub async fn pending_tool(&self, id: CallId) -> Option<ToolKey> {
        let read = self.waits.as_ref()?.read(id).await.ok()??;
        Some(read.kept.tool)
    }

    async fn seen(&self, who: &Principal, id: CallId) -> Result<(&Waits, Read), Failure> {
        let missing = || missing(id);
        let waits = self.waits.as_ref().ok_or_else(missing)?;
        let read = waits.read(id).await?.ok_or_else(missing)?;
        if self.sees(who, &read.kept) { Ok((waits, read)) } else { Err(missing()) }
    }

    /// Loads a call that this principal may decide about now.
    async fn open(
        &self,
        who: &Principal,
        id: CallId,
        seen: Option<Digest>,
    ) -> Result<(&Waits, Read), Failure> {
        let (waits, read) = self.seen(who, id).await?;
        Self::may_decide(who, &read.kept)?;
        let read = self.undecided(waits, read).await?;
        if seen.is_some_and(|seen| seen != read.kept.hash) {
            let told = "the arguments were changed meanwhile; look at them again";
            return Err(Failure::new(Code::Conflict, told));
        }
        Ok((waits, read))
    }

    /// Checks that a call is pending and not expired.
    async fn undecided(&self, waits: &Waits, read: Read) -> Result<Read, Failure> {
        let id = read.kept.id;
        if read.kept.state != State::Pending {
            return Err(decided(&read.kept));
        }
        if self.is_over(waits, &read.kept) {
            self.expire(waits, read).await;
            return Err(Failure::new(Code::Conflict, format!("the approval `{id}` has expired")));
        }
        Ok(read)
    }

    /// Approves a call, which then runs once: immediately, if its caller's credential is stored
    /// here. `seen` is the digest of the arguments that the approver reviewed, if stated.
    ///
    /// # Errors
    /// [`Code::NotFound`] if it cannot see the call, [`Code::Forbidden`] without the right or for
    /// an own call, [`Code::Conflict`] if it is decided, expired or changed.
    pub async fn approve(
        self: &Arc<Self>,
        (who, door): (&Principal, Interface),
        id: CallId,
        seen: Option<Digest>,
    ) -> Result<Shown, Failure> {
        let (waits, read) = self.open(who, id, seen).await?;
        self.not_own(waits, who, &read.kept)?;
        self.approved(waits, read, (who.caller(), door)).await
    }

    /// Confirms or refuses a call by the caller's own client, if the operator allows that for this
    /// key.
    ///
    /// # Errors
    /// [`Code::Forbidden`] if not, and as [`Gateway::approve`].
    pub async fn confirm(
        self: &Arc<Self>,
        (who, door): (&Principal, Interface),
        id: CallId,
        agrees: bool,
    ) -> Result<Shown, Failure> {
        let (waits, read) = self.seen(who, id).await?;
        if !self.client_confirms(who) || !read.kept.is_of(who.caller()) {
            let told = "this key's client may not give an approval; a person has to";
            return Err(Failure::new(Code::Forbidden, told));
        }
        let read = self.undecided(waits, read).await?;
        let by = (who.caller(), door);
        if agrees {
            return self.approved(waits, read, by).await;
        }
        self.refused(waits, read, (by, "the client refused")).await
    }

    /// Returns true if this key's client may give the approval itself.
    pub fn client_confirms(&self, who: &Principal) -> bool {
        let waits = self.waits.as_ref();
        waits.is_some_and(|it| it.patience().client_confirm.contains(who.key()))
    }

    async fn approved(
        self: &Arc<Self>,
        waits: &Waits,
        mut read: Read,
        by: (&Caller, Interface),
    ) -> Result<Shown, Failure> {
        let id = read.kept.id;
        read.kept.state = State::Approved;
        read.kept.decision = Some(self.decision(by, None));
        let read = waits.write(read).await.map_err(late)?;
        let now = self.parts.clock.wall();
        let holder = waits.holding.holders.holder(&read.kept.caller, now);
        let runs = matches!(holder, Holder::Holds(_));
        waits.index.move_to(id, Phase::Approved(runs), None);
        if let Err(failure) = self.note(&read.kept, WaitStep::Approved, Some(by), None) {
            waits.index.move_to(id, Phase::Approved(false), None);
            return Err(failure);
        }
        let mut shown = changed(waits, &read.kept);
        match holder {
            Holder::Holds(principal) => {
                self.go_on_soon(principal, id);
            }
            Holder::Gone => {
                self.void(waits, read, Failure::new(Code::ApprovalVoid, super::GONE)).await;
                if let Some(read) = waits.read(id).await? {
                    shown = Shown::of(&read.kept);
                }
            }
            Holder::Elsewhere => waits.tell(id, None),
        }
        Ok(shown)
    }

    /// Denies a call, which then never runs.
    ///
    /// # Errors
    /// As [`Gateway::approve`].
    pub async fn deny(
        &self,
        (who, door): (&Principal, Interface),
        id: CallId,
        reason: Option<&str>,
    ) -> Result<Shown, Failure> {
        let (waits, read) = self.open(who, id, None).await?;
        let reason = reason.map(words).unwrap_or_default();
        self.refused(waits, read, ((who.caller(), door), &reason)).await
    }

    /// Withdraws a pending call of this caller; it then never runs.
    ///
    /// # Errors
    /// [`Code::NotFound`] for unknown calls and for those of others, [`Code::Conflict`] if it was
    /// decided.
    pub async fn withdraw(&self, who: &Principal, id: CallId) -> Result<Shown, Failure> {
        let (waits, read) = self.seen(who, id).await?;
        if !read.kept.is_of(who.caller()) {
            return Err(Failure::new(Code::NotFound, format!("no approval `{id}`")));
        }
        let mut read = self.undecided(waits, read).await?;
        let told = "its caller took the call back";
        let (by, door) = (who.caller().clone(), read.kept.door);
        read.kept.decision = Some(self.decision((&by, door), Some(told.to_owned())));
        let failure = Failure::new(Code::ApprovalDenied, told);
        let read = self.close(waits, read, (State::Denied, failure)).await.map_err(late)?;
        self.note(&read.kept, WaitStep::Denied, Some((&by, door)), Some(told))?;
        Ok(changed(waits, &read.kept))
    }

    async fn refused(
        &self,
        waits: &Waits,
        mut read: Read,
        (by, reason): ((&Caller, Interface), &str),
    ) -> Result<Shown, Failure> {
        let told = Some(reason).filter(|reason| !reason.is_empty());
        let message = match told {
            Some(reason) => format!("the call was denied by a person: {reason}"),
            None => "the call was denied by a person".to_owned(),
        };
        let failure = Failure::new(Code::ApprovalDenied, message);
        read.kept.decision = Some(self.decision(by, told.map(str::to_owned)));
        let read = self.close(waits, read, (State::Denied, failure)).await.map_err(late)?;
        self.note(&read.kept, WaitStep::Denied, Some(by), told)?;
        Ok(changed(waits, &read.kept))
    }

    /// Edits the arguments of a pending call, which is then bound to the new ones.
    ///
    /// # Errors
    /// [`Code::InvalidArguments`] if they are invalid, [`Code::Forbidden`] if the approver or the
    /// caller may not call with them, and as [`Gateway::approve`].
    pub async fn edit(
        &self,
        (who, door): (&Principal, Interface),
        id: CallId,
        args: Json,
    ) -> Result<Shown, Failure> {
        let (waits, mut read) = self.open(who, id, None).await?;
        let view = self.view(who, read.kept.caller_type);
        let found = view.find_key(&read.kept.tool).map(|(entry, _)| entry);
        let entry = found.filter(|entry| entry.definition == read.kept.definition);
        let entry = entry.ok_or_else(|| {
            let told = "the tool is not the one that was called any more; deny the call";
            Failure::new(Code::Conflict, told)
        })?;
        let args = Args::check(args.bytes().clone()).map_err(|error| {
            Failure::new(Code::InvalidArguments, format!("the arguments: {error}"))
        })?;
        let args = crate::pipeline::fits(entry, args)?;
        self.may_edit(waits, who, (&read.kept, &args))?;
        crate::pipeline::can_succeed(entry, &args)?;
        let kept = &mut read.kept;
        kept.hash = catalog::arguments::digest(args.raw());
        kept.args = args.raw().clone();
        kept.edits = kept.edits.saturating_add(1);
        let read = waits.write(read).await.map_err(late)?;
        self.note(&read.kept, WaitStep::Edited, Some((who.caller(), door)), None)?;
        Ok(changed(waits, &read.kept))
    }

    fn decision(&self, (by, door): (&Caller, Interface), told: Option<String>) -> Decision {
        Decision { by: by.clone(), door, at: self.parts.clock.wall(), told }
    }
}

/// Notifies the observer of a change.
pub(crate) fn changed(waits: &Waits, kept: &Kept) -> Shown {
    let shown = Shown::of(kept);
    waits.holding.herald.tell(&Event { heard: Heard::Changed, shown: shown.clone() });
    shown
}

fn missing(id: CallId) -> Failure {
    Failure::new(Code::NotFound, format!("no approval `{id}`"))
}

/// Returns the error of a decision that comes too late.
fn decided(kept: &Kept) -> Failure {
    let who = kept.decision.as_ref().map(|decision| decision.by.subject.escape_debug());
    let by = who.map(|who| format!(" by `{who}`")).unwrap_or_default();
    let told = match kept.state {
        State::Pending => "was changed by someone else".to_owned(),
        State::Expired => "has expired".to_owned(),
        State::Void => "is void: what was approved was not there any more".to_owned(),
        State::Denied => format!("was denied{by}"),
        State::Approved | State::Consumed | State::Done => format!("was approved{by}"),
    };
    Failure::new(Code::Conflict, format!("the approval `{}` {told} already", kept.id))
}

/// Returns the error of a decision that lost against another.
fn late(error: StoreError) -> Failure {
    match error {
        StoreError::Conflict { .. } => {
            Failure::new(Code::Conflict, "someone else decided or changed it first; look again")
        }
        error @ StoreError::Unavailable(_) => unavailable(&error),
    }
}

/// Sanitizes a person's text for records and responses.
fn words(text: &str) -> String {
    let cut: String = text.chars().take(REASON).collect();
    shape::text(&cut)
}
