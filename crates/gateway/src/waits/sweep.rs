//! Expiry and removal of approvals, and their recovery at start.

use std::time::Duration;

use tool::ledger::WaitStep;
use tool::outcome::{Answer, Failure};
use tool::{CallId, Code, StoreError};

use super::index::{New, Phase};
use super::kept::{Kept, PREFIX};
use super::{Read, State, Waits, left};
use crate::Gateway;

/// Number of approvals per scan at start.
const PAGE: usize = 500;
/// Delay before a failed step is retried.
const AGAIN: Duration = Duration::from_secs(5);

impl Gateway {
    /// Recovers pending calls and taint after a restart. Nothing runs: an approved call that has
    /// not started waits for its caller, and the outcome of a started one is unknown.
    ///
    /// # Errors
    /// If the store does not respond.
    pub async fn restore(&self) -> Result<usize, StoreError> {
        let Some(waits) = &self.waits else { return Ok(0) };
        self.restore_taints(waits.holding.store.as_ref()).await;
        let (mut after, mut count) = (None::<String>, 0);
        loop {
            let rows = waits.holding.store.scan(PREFIX, after.as_deref(), PAGE).await?;
            let Some(last) = rows.last() else { return Ok(count) };
            after = Some(last.key.clone());
            for row in &rows {
                match Kept::read(&row.bytes) {
                    Ok(kept) => count += usize::from(self.take_up(waits, &kept)),
                    Err(error) => {
                        tracing::error!(%error, key = row.key, "a held call cannot be read");
                    }
                }
            }
        }
    }

    fn take_up(&self, waits: &Waits, kept: &Kept) -> bool {
        let (wall, mono) = (self.parts.clock.wall().0, self.parts.clock.mono());
        let stays = u64::try_from(waits.patience().kept.as_millis()).unwrap_or(u64::MAX);
        let over =
            |from: u64| Duration::from_millis(from.saturating_add(stays).saturating_sub(wall));
        let (phase, wait) = match kept.state {
            State::Pending => (Phase::Pending, kept.expires.0.saturating_sub(wall)),
            State::Approved => (Phase::Approved(false), kept.expires.0.saturating_sub(wall)),
            State::Consumed => {
                tracing::warn!(call = %kept.id, "an approved call had begun and not ended: unknown");
                (Phase::Ended, 0)
            }
            _ => (Phase::Ended, 0),
        };
        let wait = match phase {
            // A clock that was wrong when the call became pending extends no timeout.
            Phase::Pending | Phase::Approved(_) => Duration::from_millis(wait).min(super::LONGEST),
            Phase::Ended => over(kept.end.as_ref().map_or(kept.expires.0, |end| end.at.0)),
        };
        let due = mono.after(wait.min(super::LONGEST));
        waits.index.restore(&New::of(kept, phase, due));
        matches!(phase, Phase::Pending | Phase::Approved(_))
    }

    /// Expires approvals when they are due, and writes taint. Never returns.
    pub async fn tend(&self) {
        let Some(waits) = &self.waits else { return std::future::pending().await };
        let taints = self.keep_taints(waits.holding.store.as_ref());
        tokio::join!(self.tend_waits(waits), taints);
    }

    async fn tend_waits(&self, waits: &Waits) {
        loop {
            let news = waits.news.notified();
            let next = waits.index.next().map(|(due, _)| left(due, self.parts.clock.mono()));
            match next {
                Some(time) if time.is_zero() => {
                    if !self.sweep().await {
                        tokio::time::sleep(AGAIN).await;
                    }
                }
                Some(time) => tokio::select! {
                    () = tokio::time::sleep(time) => {}
                    () = news => {}
                },
                None => news.await,
            }
        }
    }

    /// Handles everything that is due now; returns true if all of it succeeded.
    pub async fn sweep(&self) -> bool {
        let Some(waits) = &self.waits else { return true };
        let now = self.parts.clock.mono();
        while let Some((_, id)) = waits.index.next().filter(|(due, _)| *due <= now) {
            if waits.index.phase(id) == Some(Phase::Ended) {
                waits.forget(id).await;
            } else if !self.end(waits, id).await {
                return false;
            }
        }
        true
    }

    async fn end(&self, waits: &Waits, id: CallId) -> bool {
        match waits.read(id).await {
            Ok(Some(read)) if matches!(read.kept.state, State::Pending | State::Approved) => {
                self.expire(waits, read).await;
            }
            // It is running, and ends by itself.
            Ok(Some(read)) if read.kept.state == State::Consumed => {
                let due = self.parts.clock.mono().after(super::LONGEST);
                waits.index.move_to(id, Phase::Approved(true), Some(due));
            }
            Ok(Some(_)) => self.keep_ended(waits, id),
            Ok(None) => waits.index.forget(id),
            Err(_) => return false,
        }
        // After a concurrent change it is no longer due; if it still is, the store does not
        // respond.
        !waits.index.is_over(id, self.parts.clock.mono())
    }

    /// Returns true if its time is over by either clock: the wall clock may jump back.
    pub(crate) fn is_over(&self, waits: &Waits, kept: &Kept) -> bool {
        kept.expires <= self.parts.clock.wall()
            || waits.index.is_over(kept.id, self.parts.clock.mono())
    }

    pub(crate) async fn expire(&self, waits: &Waits, read: Read) -> Answer {
        let told = match read.kept.state {
            State::Approved => "the call was approved, and its caller did not come back in time",
            _ => "nobody approved the call in time; call again",
        };
        let failure = Failure::new(Code::ApprovalExpired, told);
        self.closed(waits, read, (State::Expired, failure), (WaitStep::Expired, told)).await
    }
}
