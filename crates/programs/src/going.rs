//! Going on: programs whose wait has ended, and those that stopped when their process did.

use std::sync::Arc;
use std::time::Duration;

use gateway::{Holder, Unheard};
use identity::{Narrowing, Principal};
use tokio::task::JoinHandle;
use tool::outcome::Failure;
use tool::{CallId, Caller};

use crate::head::{Head, Heads};
use crate::here::Here;
use crate::keep::{Kept, Row};
use crate::program::State;
use crate::{Programs, Running, keep, run};

/// How long a program that goes on may take until it waits again or ends.
pub(crate) const LEG: Duration = Duration::from_mins(10);
/// Between two looks at what waits, for news that were lost.
const LOOK: Duration = Duration::from_mins(2);
/// Between two looks at what ended long ago.
const TIDY: Duration = Duration::from_hours(1);
/// Why a program ends whose caller can make no more calls.
pub(crate) const CREDENTIAL_GONE: &str =
    "the caller's credential was revoked or has expired: the program makes no more calls";

impl Programs {
    /// Takes up what the process before left; gives back how many are not at their end. Reads heads alone.
    ///
    /// # Errors
    /// Where the store does not answer.
    pub async fn restore(&self) -> Result<usize, Failure> {
        let store = self.parts.store.as_ref();
        keep::split_rows(store).await?;
        let (mut standing, mut heads) = (0, Heads::of(store, None));
        while let Some(page) = heads.next().await? {
            for head in page {
                if head.first && !keep::has_state(store, &head.row()).await? {
                    // Its process ended before anything of it was written, and so of it nothing ran.
                    keep::forget(store, &head.row()).await?;
                    continue;
                }
                self.quota().set(&head);
                if !head.state.has_ended() {
                    standing += 1;
                    self.index().stands(head.row(), head.state, &head.waits_for());
                }
            }
        }
        Ok(standing)
    }

    /// Lets programs go on as what they wait for is decided; never ends.
    pub async fn tend(self: &Arc<Self>) {
        // Someone does already.
        let Some(mut news) = self.parts.pending_calls.changes() else {
            return std::future::pending().await;
        };
        let mut look = tokio::time::interval(LOOK);
        let mut tidy = tokio::time::interval(TIDY);
        loop {
            tokio::select! {
                told = news.recv() => {
                    if let Some(row) = told.and_then(|call| self.index().waits_for(call)) {
                        drop(self.go_on_soon(row, None, false));
                    }
                }
                _ = look.tick() => {
                    let standing = self.index().standing();
                    for row in standing {
                        drop(self.go_on_soon(row, None, false));
                    }
                }
                _ = tidy.tick() => {
                    if let Err(failure) = self.tidy().await {
                        tracing::warn!("old programs are not forgotten: {}", failure.message);
                    }
                }
            }
        }
    }

    /// Resolves when nothing goes on any more. Nothing begins to from here on.
    pub async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// In a task of its own; nothing where one does already, or none begins any more.
    pub(crate) fn go_on_soon(
        self: &Arc<Self>,
        row: Row,
        who: Option<Principal>,
        asked: bool,
    ) -> Option<JoinHandle<()>> {
        if self.tasks.is_closed() {
            return None;
        }
        let programs = Arc::clone(self);
        Some(self.tasks.spawn(async move {
            let id = row.id;
            if let Err(failure) = programs.go_on(&row, who, asked).await {
                tracing::warn!(program = %id, "a program does not go on: {}", failure.message);
            }
        }))
    }

    /// As far as it comes. One that waits for its caller needs to be asked.
    async fn go_on(&self, row: &Row, who: Option<Principal>, asked: bool) -> Result<(), Failure> {
        // Another goes on with it, or looks as this one would.
        let Some(here) = self.looks(row, asked) else { return Ok(()) };
        let head = Head::read(self.parts.store.as_ref(), row).await?;
        let Some(head) = head.filter(|head| !head.state.has_ended()) else { return Ok(()) };
        if head.is_over(self.parts.clock.wall()) {
            return self.ended(row, &here, (State::Expired, "it did not end within 7 days")).await;
        }
        if head.state == State::Paused && !asked {
            return Ok(());
        }
        match self.current_caller((&head.caller, &head.narrowing()), who.as_ref()) {
            Holder::Holds(who) => self.leg(&head, &who, (&here, asked)).await,
            // Without its credential it waits for its caller to come back.
            Holder::Elsewhere => Ok(()),
            Holder::Gone => self.ended(row, &here, (State::Failed, CREDENTIAL_GONE)).await,
        }
    }

    /// The caller of a program as its credential stands now, with no more than it had before. A
    /// credential that is not kept here is the one that was `presented`, until its time is over.
    pub(crate) fn current_caller(
        &self,
        (caller, narrowing): (&Caller, &Narrowing),
        presented: Option<&Principal>,
    ) -> Holder {
        let now = self.parts.clock.wall();
        let current = match (self.parts.holders.holder(caller, now), presented) {
            (Holder::Holds(current), _) => current,
            (Holder::Elsewhere, Some(presented)) => {
                if presented.until().is_some_and(|until| until <= now) {
                    return Holder::Gone;
                }
                presented.clone()
            }
            (other, _) => return other,
        };
        Holder::Holds(current.lowered(caller.level).narrowed(narrowing))
    }

    /// Runs it, where what it waited for is settled. Until then its state is not read.
    async fn leg(
        &self,
        head: &Head,
        who: &Principal,
        (here, asked): (&Here<'_>, bool),
    ) -> Result<(), Failure> {
        let row = head.row();
        let context = Running { cancel: &run::Never, progress: &Unheard, caged: &|_| {} };
        let leg = run::Leg::new(self, (self.gateway()?, who), context, here.own());
        let Some(settled) = leg.decided(&head.waits_for()).await? else { return Ok(()) };
        let Some(mut kept) = self.read(&row).await? else { return self.has_none(head).await };
        if kept.program.has_ended() || kept.program.state == State::Paused && !asked {
            return self.repair_head(kept, (head, here)).await;
        }
        let waited = kept.program.waits_for();
        let settled = if waited == head.waits_for() {
            settled
        } else {
            // The process before ended between the head and the state.
            match leg.decided(&waited).await? {
                Some(settled) => settled,
                None => return self.repair_head(kept, (head, here)).await,
            }
        };
        if kept.program.at.is_none() {
            let told = "the server ended while the program ran, and where it stood is not kept";
            return self.ended(&row, here, (State::Unknown, told)).await;
        }
        kept.program.goes_on();
        if !here.runs(&kept.program) {
            return Ok(());
        }
        if let Ok(went) = tokio::time::timeout(LEG, leg.gone_on(kept, settled)).await {
            here.came(&went?, &waited);
            return Ok(());
        }
        let told = "it took longer than 10 min and was ended";
        self.ended(&row, here, (State::Failed, told)).await
    }

    /// The process before ended between the first head and the first state of a program: nothing of it ran.
    async fn has_none(&self, head: &Head) -> Result<(), Failure> {
        keep::forget(self.parts.store.as_ref(), &head.row()).await?;
        self.quota().remove(&head.caller, head.id);
        self.index().leaves_off(&head.row(), &head.waits_for());
        Ok(())
    }

    /// The process before ended between the two rows of a program: the head says what the state does.
    async fn repair_head(
        &self,
        mut kept: Kept,
        (head, here): (&Head, &Here<'_>),
    ) -> Result<(), Failure> {
        let right = Head::of(&kept.program, kept.bytes().len());
        kept.settle_head(self.parts.store.as_ref(), &right).await?;
        self.quota().set(&right);
        here.came(&kept, &head.waits_for());
        Ok(())
    }

    /// Ends it, unless another has taken over, or it has ended.
    async fn ended(
        &self,
        row: &Row,
        here: &Here<'_>,
        (state, why): (State, &str),
    ) -> Result<(), Failure> {
        if !here.stays() {
            return Ok(());
        }
        let Some(mut kept) = self.read(row).await? else { return Ok(()) };
        if kept.program.has_ended() {
            return Ok(());
        }
        let waited: Vec<CallId> = kept.program.waits_for();
        kept.program.ends(self.parts.clock.wall(), state, Err(why.to_owned()));
        self.write(&mut kept).await?;
        here.came(&kept, &waited);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
