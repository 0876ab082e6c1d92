//! Resumption: continues programs whose pending call is decided or whose process ended, and expires
//! old ones.

use std::sync::Arc;
use std::time::Duration;

use gateway::{CredentialStatus, NoopProgress};
use identity::{Principal, RequestRestrictions};
use serde_json::Value;
use tokio::task::JoinHandle;
use tool::call_outcome::CallFailure;
use tool::{CallId, Caller};

use crate::cancellation::CANCEL_GRACE;
use crate::parent_call::NeverCancelled;
use crate::program_claim::ProgramClaim;
use crate::program_head::{ProgramHead, ProgramHeadPages};
use crate::program_state::ProgramStatus;
use crate::program_store::{ProgramKey, StoredProgram};
use crate::{ParentCall, Programs, already_ended, program_store, run_segment};

/// Maximum duration of one run segment.
pub(crate) const MAX_SEGMENT_TIME: Duration = Duration::from_mins(10);
/// Interval of scans for resumable programs whose notification was lost.
const RESUME_SCAN_INTERVAL: Duration = Duration::from_mins(2);
/// Interval of the removal of old programs.
const PURGE_INTERVAL: Duration = Duration::from_hours(1);
/// Error of a program whose caller may not make calls any more.
pub(crate) const CREDENTIAL_REVOKED: &str =
    "the caller's credential was revoked or has expired, so the program makes no more calls";

impl Programs {
    /// Restores the index after a restart from the head rows. Returns the number of unfinished
    /// programs.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn restore_programs(&self) -> Result<usize, CallFailure> {
        let store = self.dependencies.store.as_ref();
        program_store::migrate_rows(store).await?;
        let (mut unfinished_count, mut heads) = (0, ProgramHeadPages::for_caller(store, None));
        while let Some(page) = heads.next_page().await? {
            for head in page {
                if head.is_first_write
                    && !program_store::has_state(store, &head.program_key()).await?
                {
                    // Its process ended before it wrote a state, so no call was made.
                    program_store::delete_program(store, &head.program_key()).await?;
                    continue;
                }
                self.lock_quota().record_program(&head);
                if !head.state.has_ended() {
                    unfinished_count += 1;
                    self.lock_index().add_unfinished(
                        head.program_key(),
                        head.state,
                        &head.pending_call_ids(),
                    );
                }
            }
        }
        Ok(unfinished_count)
    }

    /// Resumes a paused program of this caller. A call whose approval expired is requested again.
    /// Waits as [`Programs::wait_for_program`] does.
    ///
    /// # Errors
    /// [`ErrorCode::Conflict`](tool::ErrorCode::Conflict) if it has ended, and as [`Programs::wait_for_program`].
    pub async fn resume_and_wait(
        self: &Arc<Self>,
        principal: &Principal,
        id: CallId,
        wait: Duration,
    ) -> Result<Value, CallFailure> {
        let until = self.dependencies.clock.monotonic_now().saturating_add(wait);
        let running =
            self.lock_index().running_snapshot(&ProgramKey::for_caller(principal.caller(), id));
        if running.is_none() {
            let stored = self.load_owned(principal, id).await?;
            if stored.program.has_ended() {
                return Err(already_ended(id));
            }
            // In a separate task, which continues if this caller disconnects.
            if let Some(task) =
                self.spawn_resume(stored.program_key(), Some(principal.clone()), true)
            {
                drop(tokio::time::timeout(wait.max(CANCEL_GRACE), task).await);
            }
        }
        self.wait_for_program(
            principal,
            id,
            until.saturating_duration_since(self.dependencies.clock.monotonic_now()),
        )
        .await
    }

    /// Resumes programs when their pending calls are decided. Never returns.
    pub async fn run_resumption_loop(self: &Arc<Self>) {
        // Another task runs the loop already.
        let Some(mut decisions) = self.dependencies.pending_calls.take_changes() else {
            return std::future::pending().await;
        };
        let mut scan_timer = tokio::time::interval(RESUME_SCAN_INTERVAL);
        let mut purge_timer = tokio::time::interval(PURGE_INTERVAL);
        loop {
            tokio::select! {
                decision = decisions.recv() => {
                    if let Some(row) = decision.and_then(|call| self.lock_index().program_waiting_for(call)) {
                        drop(self.spawn_resume(row, None, false));
                    }
                }
                _ = scan_timer.tick() => {
                    let unfinished = self.lock_index().unfinished_programs();
                    for row in unfinished {
                        drop(self.spawn_resume(row, None, false));
                    }
                }
                _ = purge_timer.tick() => {
                    if let Err(failure) = self.expire_and_purge().await {
                        tracing::warn!("cannot remove old programs: {}", failure.message);
                    }
                }
            }
        }
    }

    /// Waits until all running tasks have ended. No new task starts afterwards.
    pub async fn drain_tasks(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Resumes a program in a separate task; `None` if tasks are shut down.
    pub(crate) fn spawn_resume(
        self: &Arc<Self>,
        program_key: ProgramKey,
        principal: Option<Principal>,
        is_explicit_resume: bool,
    ) -> Option<JoinHandle<()>> {
        if self.tasks.is_closed() {
            return None;
        }
        let programs = Arc::clone(self);
        Some(self.tasks.spawn(async move {
            let id = program_key.id;
            if let Err(failure) =
                Box::pin(programs.resume_program(&program_key, principal, is_explicit_resume)).await
            {
                tracing::warn!(program = %id, "a program did not resume: {}", failure.message);
            }
        }))
    }

    /// Resumes a program as far as possible. A paused one requires an explicit resume.
    async fn resume_program(
        &self,
        row: &ProgramKey,
        principal: Option<Principal>,
        is_explicit_resume: bool,
    ) -> Result<(), CallFailure> {
        // Another task already resumes or checks it.
        let Some(claim) = self.claim_for_check(row, is_explicit_resume) else { return Ok(()) };
        let head = ProgramHead::load(self.dependencies.store.as_ref(), row).await?;
        let Some(head) = head.filter(|head| !head.state.has_ended()) else { return Ok(()) };
        if head.is_expired(self.dependencies.clock.wall_now()) {
            return self
                .end_program(row, &claim, (ProgramStatus::Expired, "it did not end within 7 days"))
                .await;
        }
        if head.state == ProgramStatus::Paused && !is_explicit_resume {
            return Ok(());
        }
        match self.current_caller((&head.caller, &head.restrictions), principal.as_ref()) {
            CredentialStatus::Valid(who) => {
                self.run_next_segment(&head, &who, (&claim, is_explicit_resume)).await
            }
            // The program waits until its caller presents the credential again.
            CredentialStatus::NotStoredHere => Ok(()),
            CredentialStatus::Invalid => {
                self.end_program(row, &claim, (ProgramStatus::Failed, CREDENTIAL_REVOKED)).await
            }
        }
    }

    /// Returns the caller of a program with its current rights, at most those it had before. A
    /// credential that is not stored here is the `presented` one, until it expires.
    pub(crate) fn current_caller(
        &self,
        (caller, restrictions): (&Caller, &RequestRestrictions),
        presented: Option<&Principal>,
    ) -> CredentialStatus {
        let now = self.dependencies.clock.wall_now();
        let current =
            match (self.dependencies.principal_resolver.resolve_caller(caller, now), presented) {
                (CredentialStatus::Valid(current), _) => current,
                (CredentialStatus::NotStoredHere, Some(presented)) => {
                    if presented.expires_at().is_some_and(|until| until <= now) {
                        return CredentialStatus::Invalid;
                    }
                    presented.clone()
                }
                (other, _) => return other,
            };
        CredentialStatus::Valid(
            current.with_max_level(caller.level).with_restrictions(restrictions),
        )
    }

    /// Runs the next segment if its pending calls are settled. Its state is read only then.
    async fn run_next_segment(
        &self,
        head: &ProgramHead,
        principal: &Principal,
        (claim, is_explicit_resume): (&ProgramClaim<'_>, bool),
    ) -> Result<(), CallFailure> {
        let row = head.program_key();
        let context = ParentCall {
            cancel_signal: &NeverCancelled,
            progress: &NoopProgress,
            report_usage: &|_| {},
        };
        let segment = run_segment::RunSegment::new(
            self,
            (self.live_gateway()?, principal),
            context,
            claim.cancellation_token(),
        );
        let Some(settled) = segment.settled_calls(&head.pending_call_ids()).await? else {
            return Ok(());
        };
        let Some(mut stored) = self.load_program(&row).await? else {
            return self.remove_orphan_head(head).await;
        };
        if stored.program.has_ended()
            || stored.program.state == ProgramStatus::Paused && !is_explicit_resume
        {
            return self.repair_head(stored, (head, claim)).await;
        }
        let waited = stored.program.pending_calls();
        let settled = if waited == head.pending_call_ids() {
            settled
        } else {
            // The process before ended between the head and the state.
            match segment.settled_calls(&waited).await? {
                Some(settled) => settled,
                None => return self.repair_head(stored, (head, claim)).await,
            }
        };
        if stored.program.checkpoint.is_none() {
            let message = "the server stopped while the program ran, and its state was not stored";
            return self.end_program(&row, claim, (ProgramStatus::Unknown, message)).await;
        }
        stored.program.mark_running();
        if !claim.start_running(&stored.program) {
            return Ok(());
        }
        if let Ok(result) =
            tokio::time::timeout(MAX_SEGMENT_TIME, segment.resume_segment(stored, settled)).await
        {
            claim.publish_and_release(&result?, &waited);
            return Ok(());
        }
        let message = "it ran longer than 10 min and was stopped";
        self.end_program(&row, claim, (ProgramStatus::Failed, message)).await
    }

    /// Removes a head without a state. The previous process ended between the two writes, so no
    /// call was made.
    async fn remove_orphan_head(&self, head: &ProgramHead) -> Result<(), CallFailure> {
        program_store::delete_program(self.dependencies.store.as_ref(), &head.program_key())
            .await?;
        self.lock_quota().remove_program(&head.caller, head.id);
        self.lock_index().remove_unfinished(&head.program_key(), &head.pending_call_ids());
        Ok(())
    }

    /// Updates the head to match the state, after the previous process ended between the two
    /// writes.
    async fn repair_head(
        &self,
        mut stored: StoredProgram,
        (head, claim): (&ProgramHead, &ProgramClaim<'_>),
    ) -> Result<(), CallFailure> {
        let right = ProgramHead::from_program(&stored.program, stored.encode_state().len());
        stored.settle_head(self.dependencies.store.as_ref(), &right).await?;
        self.lock_quota().record_program(&right);
        claim.publish_and_release(&stored, &head.pending_call_ids());
        Ok(())
    }

    /// Ends the program, unless another task has claimed it or it has ended.
    async fn end_program(
        &self,
        row: &ProgramKey,
        claim: &ProgramClaim<'_>,
        (state, why): (ProgramStatus, &str),
    ) -> Result<(), CallFailure> {
        if !claim.lock_for_end() {
            return Ok(());
        }
        let Some(mut stored) = self.load_program(row).await? else { return Ok(()) };
        if stored.program.has_ended() {
            return Ok(());
        }
        let waited: Vec<CallId> = stored.program.pending_calls();
        stored.program.finish_program(
            self.dependencies.clock.wall_now(),
            state,
            Err(why.to_owned()),
        );
        self.save_program(&mut stored).await?;
        claim.publish_and_release(&stored, &waited);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
