//! Creation of an approval: index entry, store row, record, notification.

use policy::Reason;
use tool::ledger::{WaitStep, Waited};
use tool::outcome::Failure;
use tool::store::Expect;
use tool::{CallId, Caller, Code, Interface, Limits, Step};

use super::index::{New, Phase};
use super::kept::{Kept, key};
use super::{Event, Heard, LONGEST, Shown, State, Waits, unavailable};
use crate::pipeline::{Looked, Refused, denied};
use crate::{Gateway, ModelCall, Request, Target};
use identity::Principal;

impl Gateway {
    /// Stores a call until a person decides. Nothing of it runs here.
    pub(crate) async fn hold(
        &self,
        id: CallId,
        principal: &Principal,
        request: &Request,
        (looked, reason): (Looked, Reason),
    ) -> Result<Step, Refused> {
        // A call that continues with client input, or has no arguments of its own to show, has
        // nothing that a person could approve.
        let plain = matches!(request.target, Target::Tool(_) | Target::Of { .. })
            && request.continues.is_none();
        let Some(waits) = self.waits.as_ref().filter(|_| plain) else {
            return Err(denied(Code::ApprovalRequired, reason, &looked.why));
        };
        let (most, size) = (Limits::ARGUMENTS.bytes, looked.args.raw().bytes().len());
        if size > most {
            let told = format!(
                "the call needs an approval, and arguments of {size} bytes cannot be kept for one; {most} can"
            );
            return Err(Refused::of(Failure::new(Code::TooLarge, told), reason));
        }
        let kept = self.kept(id, principal, request, (&looked, reason));
        waits.keep(self, &kept).await.map_err(|failure| Refused::of(failure, reason))?;
        Ok(kept.waits())
    }

    fn kept(
        &self,
        id: CallId,
        principal: &Principal,
        request: &Request,
        (looked, reason): (&Looked, Reason),
    ) -> Kept {
        let Looked { entry, view, args, .. } = looked;
        let now = self.parts.clock.wall();
        let wait = self.waits.as_ref().map_or(LONGEST, |it| it.patience().expires);
        let wait = u64::try_from(wait.min(LONGEST).as_millis()).unwrap_or(u64::MAX);
        let ms = |limit: std::time::Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Kept {
            id,
            state: State::Pending,
            caller: principal.caller().clone(),
            narrowed: Kept::narrowing(principal),
            caller_type: request.caller_type,
            door: request.door,
            parent: request.parent,
            chain_index: request.chain_index,
            timeout_ms: request.timeout.map(ms),
            tool: entry.key.clone(),
            definition: entry.definition,
            policy: view.policy(),
            reason: (reason.as_str().to_owned(), looked.why.clone().into_owned()),
            holds: looked.holds.clone(),
            level: entry.tool.traits.level,
            effects: entry.tool.traits.effects.words().into_iter().map(str::to_owned).collect(),
            hash: catalog::arguments::digest(args.raw()),
            args: args.raw().clone(),
            created: now,
            expires: tool::Wall(now.0.saturating_add(wait)),
            edits: 0,
            decision: None,
            end: None,
            model_call: request.model_call.clone().filter(ModelCall::is_short),
        }
    }

    /// Records a step of a pending approval.
    pub(crate) fn note(
        &self,
        kept: &Kept,
        step: WaitStep,
        by: Option<(&Caller, Interface)>,
        told: Option<&str>,
    ) -> Result<(), Failure> {
        let waited = Waited {
            call: kept.id,
            step,
            at: self.parts.clock.wall(),
            caller: kept.caller.clone(),
            door: kept.door,
            tool: kept.tool.clone(),
            definition: kept.definition,
            policy: kept.policy,
            reason: kept.reason.0.clone(),
            args: self.mac.of(kept.args.bytes()),
            expires: kept.expires,
            by: by.map(|(caller, door)| (caller.clone(), door)),
            told: told.map(str::to_owned),
        };
        self.parts.ledger.wait(&waited).map_err(|error| {
            tracing::error!(%error, call = %kept.id, "a step of a held call is not on record");
            let told = format!("it cannot be recorded: {error}");
            Failure::new(Code::RecordUnavailable, told)
        })
    }
}

impl Waits {
    /// Creates the index entry, the row and the record; a failure leaves nothing behind.
    async fn keep(&self, gateway: &Gateway, kept: &Kept) -> Result<(), Failure> {
        let now = gateway.parts.clock.mono();
        let wait = std::time::Duration::from_millis(kept.expires.0.saturating_sub(kept.created.0));
        let id = kept.id;
        self.index.admit(&New::of(kept, Phase::Pending, now.after(wait)), now)?;
        let put = self.holding.store.put(&key(id), Expect::Absent, Some(kept.bytes())).await;
        if let Err(error) = put {
            self.index.forget(id);
            return Err(unavailable(&error));
        }
        if let Err(failure) = gateway.note(kept, WaitStep::Held, None, None) {
            self.forget(id).await;
            return Err(failure);
        }
        self.news.notify_one();
        self.holding.herald.tell(&Event { heard: Heard::Held, shown: Shown::of(kept) });
        tracing::info!(tool = %kept.tool.name, call = %id, "held for an approval");
        Ok(())
    }
}
