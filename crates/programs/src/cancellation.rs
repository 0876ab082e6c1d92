//! Cancellation of programs: stops the running segment and withdraws pending calls.

use std::sync::Arc;
use std::time::Duration;

use identity::Principal;
use serde_json::Value;
use tool::CallId;
use tool::call_outcome::CallFailure;

use crate::program_claim::ProgramClaim;
use crate::program_state::ProgramStatus;
use crate::program_store::ProgramKey;
use crate::{Programs, already_ended, program_view};

/// Time that a cancelled program has to stop.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(5);

impl Programs {
    /// Cancels a program of this caller: stops its running segment and withdraws its pending calls.
    ///
    /// # Errors
    /// [`ErrorCode::Conflict`](tool::ErrorCode::Conflict) if it has ended, and as [`Programs::wait_for_program`].
    pub async fn cancel_program(
        self: &Arc<Self>,
        principal: &Principal,
        id: CallId,
    ) -> Result<Value, CallFailure> {
        let row = ProgramKey::for_caller(principal.caller(), id);
        let Some((claim, ran)) = self.stop_and_claim(&row).await else {
            return Ok(self.current_snapshot(principal, id).await?.view.clone());
        };
        let mut stored = self.load_owned(principal, id).await?;
        if stored.program.has_ended() {
            return if ran {
                Ok(program_view::full_view(&stored.program))
            } else {
                Err(already_ended(id))
            };
        }
        let pending = stored.program.pending_calls();
        let why = "its caller cancelled it".to_owned();
        stored.program.finish_program(
            self.dependencies.clock.wall_now(),
            ProgramStatus::Cancelled,
            Err(why),
        );
        self.save_program(&mut stored).await?;
        claim.publish_and_release(&stored, &pending);
        let gateway = self.live_gateway()?;
        for call in pending {
            // One that was decided in between has run or will not.
            drop(gateway.withdraw_call(principal, call).await);
        }
        Ok(program_view::full_view(&stored.program))
    }

    /// Stops the running segment of a program and claims it. Returns whether one ran; `None` if
    /// stopping takes too long.
    async fn stop_and_claim(&self, row: &ProgramKey) -> Option<(ProgramClaim<'_>, bool)> {
        let (until, mut ran) = (tokio::time::Instant::now() + CANCEL_GRACE, false);
        loop {
            let conflict = match self.claim_for_end(row) {
                Ok(claim) => return Some((claim, ran)),
                Err(conflict) => conflict,
            };
            ran |= conflict.is_running;
            conflict.cancellation.cancel();
            tokio::time::timeout_at(until, conflict.released.cancelled()).await.ok()?;
        }
    }
}
