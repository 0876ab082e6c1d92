//! Going on: programs whose wait has ended, and those that stopped when their process did.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use gateway::{Event, Heard, Holder, Unheard};
use identity::{Narrowing, Principal};
use tokio::task::JoinHandle;
use tool::outcome::Failure;
use tool::{CallId, Caller, Wall};

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
/// Milliseconds from its beginning in which a program must have ended.
const LIFE: u64 = 7 * 24 * 60 * 60 * 1_000;

impl Programs {
    /// Something happened to a held call: where a program waits for it, it goes on soon.
    pub fn heard(&self, event: &Event) {
        if event.heard == Heard::Changed && self.index().waits_for(event.shown.id).is_some() {
            self.has_news_of(event.shown.id);
        }
    }

    /// The program that waits for this call is looked at soon.
    pub(crate) fn has_news_of(&self, call: CallId) {
        // Where there is no room, the next look finds it.
        self.news.0.try_send(call).ok();
    }

    /// Takes up what the process before left; gives back how many are not at their end.
    ///
    /// # Errors
    /// Where the store does not answer.
    pub async fn restore(&self) -> Result<usize, Failure> {
        let mut standing = 0;
        for mut kept in keep::all(self.parts.store.as_ref(), None).await? {
            if kept.program.has_ended() {
                continue;
            }
            if kept.program.at.is_none() {
                let told = "the server ended while the program ran, and where it stood is not kept";
                kept.program.ends(self.parts.clock.wall(), State::Unknown, Err(told.to_owned()));
                kept.write(self.parts.store.as_ref()).await?;
                continue;
            }
            standing += 1;
            self.index().stands(&kept);
        }
        Ok(standing)
    }

    /// Lets programs go on as what they wait for is decided; never ends.
    pub async fn tend(self: &Arc<Self>) {
        let hears = self.news.1.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Someone does already.
        let Some(mut news) = hears else { return std::future::pending().await };
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

    /// Ends those whose time is over, and forgets those that ended long ago.
    async fn tidy(self: &Arc<Self>) -> Result<(), Failure> {
        let (store, now) = (self.parts.store.as_ref(), self.parts.clock.wall());
        for kept in keep::all(store, None).await? {
            if kept.ended_long_ago(now) {
                kept.forget(store).await;
            } else if is_over(&kept, now) {
                drop(self.go_on_soon(kept.row(), None, false));
            }
        }
        Ok(())
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
        let Some(kept) = Kept::read(self.parts.store.as_ref(), row).await? else { return Ok(()) };
        if kept.program.has_ended() {
            return Ok(());
        }
        let now = self.parts.clock.wall();
        if is_over(&kept, now) {
            let why = "it did not end within 7 days";
            return self.ended((kept, &here), State::Expired, why).await;
        }
        if kept.program.state == State::Paused && !asked {
            return Ok(());
        }
        let narrowing: Narrowing = kept.program.narrowed.clone().into();
        match self.current_caller((&kept.program.caller, &narrowing), who.as_ref()) {
            Holder::Holds(who) => self.leg(kept, &who, &here).await,
            // Without its credential it waits for its caller to come back.
            Holder::Elsewhere => Ok(()),
            Holder::Gone => self.ended((kept, &here), State::Failed, CREDENTIAL_GONE).await,
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

    /// Runs it, where what it waited for is settled.
    async fn leg(&self, mut kept: Kept, who: &Principal, here: &Here<'_>) -> Result<(), Failure> {
        let (row, waited) = (kept.row(), kept.program.waits_for());
        let context = Running { cancel: &run::Never, progress: &Unheard, caged: &|_| {} };
        let gateway = self.gateway()?;
        let leg = run::Leg::new(self, (gateway, who), context, here.own());
        let Some(settled) = leg.decided(&kept).await? else { return Ok(()) };
        kept.program.goes_on();
        if !here.runs(&kept.program) {
            return Ok(());
        }
        if let Ok(went) = tokio::time::timeout(LEG, leg.gone_on(kept, settled)).await {
            here.came(&went?, &waited);
            return Ok(());
        }
        match Kept::read(self.parts.store.as_ref(), &row).await? {
            Some(kept) => {
                self.ended((kept, here), State::Failed, "it took longer than 10 min and was ended")
                    .await
            }
            None => Ok(()),
        }
    }

    /// Ends it, unless another has taken over.
    async fn ended(
        &self,
        (mut kept, here): (Kept, &Here<'_>),
        state: State,
        why: &str,
    ) -> Result<(), Failure> {
        if !here.stays() {
            return Ok(());
        }
        let waited: Vec<CallId> = kept.program.waits_for();
        kept.program.ends(self.parts.clock.wall(), state, Err(why.to_owned()));
        kept.write(self.parts.store.as_ref()).await?;
        here.came(&kept, &waited);
        Ok(())
    }
}

/// Whether it should have ended by now.
fn is_over(kept: &Kept, now: Wall) -> bool {
    !kept.program.has_ended() && now.0.saturating_sub(kept.program.created.0) > LIFE
}

#[cfg(test)]
mod tests;
