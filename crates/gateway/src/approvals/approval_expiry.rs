//! Expiry and removal of approvals, and their recovery at start.

use std::time::Duration;

use tool::call_outcome::{CallFailure, CallResponse};
use tool::clock::duration_millis;
use tool::ledger::ApprovalStep;
use tool::{CallId, ErrorCode, StoreError};

use super::approval_closure::ApprovalClosure;
use super::approval_index::{ApprovalPhase, NewIndexEntry};
use super::stored_approval::{APPROVAL_PREFIX, StoredApproval};
use super::{ApprovalRegistry, ApprovalState, VersionedApproval, time_until};
use crate::Gateway;

/// Number of approvals per scan at start.
const SCAN_ROWS: usize = 500;
/// Delay before a failed step is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);

impl Gateway {
    /// Recovers pending calls and taint after a restart. Nothing runs: an approved call that has
    /// not started waits for its caller, and the outcome of a started one is unknown.
    ///
    /// # Errors
    /// If the store does not respond.
    pub async fn recover_approvals(&self) -> Result<usize, StoreError> {
        let Some(waits) = &self.approvals else { return Ok(0) };
        self.restore_taints(waits.store.as_ref()).await;
        let (mut after, mut count) = (None::<String>, 0);
        loop {
            let rows =
                waits.store.scan_prefix(APPROVAL_PREFIX, after.as_deref(), SCAN_ROWS).await?;
            let Some(last) = rows.last() else { return Ok(count) };
            after = Some(last.key.clone());
            for row in &rows {
                match StoredApproval::decode(&row.bytes) {
                    Ok(kept) => count += usize::from(self.recover_entry(waits, &kept)),
                    Err(error) => {
                        tracing::error!(%error, key = row.key, "cannot read a pending call");
                    }
                }
            }
        }
    }

    fn recover_entry(&self, waits: &ApprovalRegistry, kept: &StoredApproval) -> bool {
        let (wall, mono) =
            (self.components.clock.wall_now().0, self.components.clock.monotonic_now());
        let stays = duration_millis(waits.current_settings().result_retention);
        let over =
            |from: u64| Duration::from_millis(from.saturating_add(stays).saturating_sub(wall));
        let (phase, wait) = match kept.state {
            ApprovalState::Pending => {
                (ApprovalPhase::Pending, kept.expires_at.0.saturating_sub(wall))
            }
            ApprovalState::Approved => {
                (ApprovalPhase::Approved(false), kept.expires_at.0.saturating_sub(wall))
            }
            ApprovalState::Consumed => {
                tracing::warn!(
                    call = %kept.id,
                    "an approved call was interrupted; its outcome is unknown"
                );
                (ApprovalPhase::Completed, 0)
            }
            _ => (ApprovalPhase::Completed, 0),
        };
        let wait = match phase {
            // A clock that was wrong when the call became pending extends no timeout.
            ApprovalPhase::Pending | ApprovalPhase::Approved(_) => {
                Duration::from_millis(wait).min(super::MAX_DECISION_TIMEOUT)
            }
            ApprovalPhase::Completed => {
                over(kept.call_result.as_ref().map_or(kept.expires_at.0, |end| end.ended_at.0))
            }
        };
        let due = mono.saturating_add(wait.min(super::MAX_DECISION_TIMEOUT));
        waits.index.restore_entry(&NewIndexEntry::from_approval(kept, phase, due));
        matches!(phase, ApprovalPhase::Pending | ApprovalPhase::Approved(_))
    }

    /// Expires approvals when they are due, and writes taint. Never returns.
    pub async fn run_maintenance(&self) {
        let Some(waits) = &self.approvals else { return std::future::pending().await };
        let taints = self.run_taint_writer(waits.store.as_ref());
        tokio::join!(self.run_approval_expiry(waits), taints);
    }

    async fn run_approval_expiry(&self, waits: &ApprovalRegistry) {
        loop {
            let news = waits.schedule_changed.notified();
            let next = waits
                .index
                .next_due()
                .map(|(due, _)| time_until(due, self.components.clock.monotonic_now()));
            match next {
                Some(time) if time.is_zero() => {
                    if !self.expire_due().await {
                        tokio::time::sleep(RETRY_DELAY).await;
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
    pub async fn expire_due(&self) -> bool {
        let Some(waits) = &self.approvals else { return true };
        let now = self.components.clock.monotonic_now();
        while let Some((_, id)) = waits.index.next_due().filter(|(due, _)| *due <= now) {
            if waits.index.phase_of(id) == Some(ApprovalPhase::Completed) {
                waits.remove_approval(id).await;
            } else if !self.end_due_call(waits, id).await {
                return false;
            }
        }
        true
    }

    async fn end_due_call(&self, waits: &ApprovalRegistry, id: CallId) -> bool {
        match waits.read_approval(id).await {
            Ok(Some(read))
                if matches!(
                    read.approval.state,
                    ApprovalState::Pending | ApprovalState::Approved
                ) =>
            {
                self.expire_approval(waits, read).await;
            }
            // It is running, and ends by itself.
            Ok(Some(read)) if read.approval.state == ApprovalState::Consumed => {
                let due = self
                    .components
                    .clock
                    .monotonic_now()
                    .saturating_add(super::MAX_DECISION_TIMEOUT);
                waits.index.set_phase(id, ApprovalPhase::Approved(true), Some(due));
            }
            Ok(Some(_)) => self.retain_ended(waits, id),
            Ok(None) => waits.index.remove_entry(id),
            Err(_) => return false,
        }
        // After a concurrent change it is no longer due; if it still is, the store does not
        // respond.
        !waits.index.is_expired(id, self.components.clock.monotonic_now())
    }

    /// Returns true if its time is over by either clock: the wall clock may jump back.
    pub(crate) fn is_expired(
        &self,
        approvals: &ApprovalRegistry,
        approval: &StoredApproval,
    ) -> bool {
        approval.expires_at <= self.components.clock.wall_now()
            || approvals.index.is_expired(approval.id, self.components.clock.monotonic_now())
    }

    pub(crate) async fn expire_approval(
        &self,
        approvals: &ApprovalRegistry,
        versioned: VersionedApproval,
    ) -> CallResponse {
        let told = match versioned.approval.state {
            ApprovalState::Approved => {
                "the call was approved, but its caller did not return in time"
            }
            _ => "the approval expired; call again",
        };
        let failure = CallFailure::new(ErrorCode::ApprovalExpired, told);
        let closure = ApprovalClosure { state: ApprovalState::Expired, failure };
        self.close_and_record(approvals, versioned, closure, ApprovalStep::Expired).await
    }
}
