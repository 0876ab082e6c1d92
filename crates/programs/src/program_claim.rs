//! Claim on a program: a guard that lets one task of this process check, end or run it.

use tokio_util::sync::CancellationToken;
use tool::CallId;

use crate::Programs;
use crate::program_index::{ClaimConflict, ClaimToken};
use crate::program_state::{ProgramState, ProgramStatus};
use crate::program_store::{ProgramKey, StoredProgram};
use crate::program_view::status_word;

/// Guard of a claim. Dropping it releases the program.
pub(crate) struct ProgramClaim<'a> {
    programs: &'a Programs,
    claim: ClaimToken,
}

impl Programs {
    /// Claims a program to check whether it can continue. With `is_explicit_resume` the claim
    /// replaces one of a background check. `None` if another task holds it.
    pub(crate) fn claim_for_check(
        &self,
        program_key: &ProgramKey,
        is_explicit_resume: bool,
    ) -> Option<ProgramClaim<'_>> {
        let claim = self.lock_index().claim_for_check(program_key, is_explicit_resume)?;
        Some(ProgramClaim { programs: self, claim })
    }

    /// Claims a program to end it, and replaces the claim of a check.
    pub(crate) fn claim_for_end(
        &self,
        program_key: &ProgramKey,
    ) -> Result<ProgramClaim<'_>, ClaimConflict> {
        let claim = self.lock_index().claim_for_end(program_key)?;
        Ok(ProgramClaim { programs: self, claim })
    }
}

impl ProgramClaim<'_> {
    /// Marks the program as running, visible to readers. Returns whether the claim is still valid.
    pub(crate) fn start_running(&self, program: &ProgramState) -> bool {
        self.programs.lock_index().mark_running(&self.claim, program)
    }

    /// Prevents further claims. Returns whether the claim is still valid.
    pub(crate) fn lock_for_end(&self) -> bool {
        self.programs.lock_index().mark_ending(&self.claim)
    }

    /// Returns the token that is cancelled when the caller cancels the program.
    pub(crate) fn cancellation_token(&self) -> CancellationToken {
        self.claim.cancellation_token()
    }

    /// Publishes the state of a program and releases its claim in one step, so that no reader waits
    /// for a program that appears to run but has ended. `pending_calls` are its previous pending
    /// calls.
    pub(crate) fn publish_and_release(&self, stored: &StoredProgram, pending_calls: &[CallId]) {
        {
            let mut index = self.programs.lock_index();
            index.record_progress(stored, pending_calls);
            index.release_claim(&self.claim);
        }
        let program = &stored.program;
        if let Some(observer) = &self.programs.dependencies.observer
            && program.has_ended()
        {
            observer.program_ended(program.id, status_word(program.state), &program.caller);
        }
        if stored.program.state == ProgramStatus::PendingApproval {
            // The decision of a call may have arrived before the program was indexed.
            for call in stored.program.pending_calls() {
                self.programs.dependencies.pending_calls.queue_call(call);
            }
        }
    }
}

impl Drop for ProgramClaim<'_> {
    fn drop(&mut self) {
        self.programs.lock_index().release_claim(&self.claim);
    }
}
