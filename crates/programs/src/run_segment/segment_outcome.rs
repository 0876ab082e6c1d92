//! Outcome of a run segment, and its record in the state of the program.

use serde_json::Value;
use tool::ErrorCode;
use tool::call_outcome::CallFailure;
use tool::clock::duration_millis;

use super::RunSegment;
use crate::program_state::{Checkpoint, ProgramState, ProgramStatus};
use crate::program_store::StoredProgram;

/// Result of a run segment.
pub(crate) enum SegmentResult {
    /// Ran to its end, with the result.
    Completed(Value),
    /// Ended with an exception.
    Failed(String),
    /// Stopped at a pending call.
    PendingApproval(Box<Checkpoint>),
    /// Stopped at calls of these tools whose approval expired.
    Paused(Box<Checkpoint>, Vec<String>),
}

/// Reason why a segment was aborted.
pub(crate) enum SegmentAbort {
    /// The caller cancelled it.
    Cancelled,
    /// The previous process ended while a call ran, and its outcome is unknown.
    OutcomeUnknown(String),
    /// It cannot continue; its stored state is kept.
    Failed(CallFailure),
}

impl From<CallFailure> for SegmentAbort {
    fn from(failure: CallFailure) -> Self {
        Self::Failed(failure)
    }
}

impl RunSegment<'_> {
    /// Records the result of the segment.
    pub(super) async fn finish_segment(
        &self,
        mut stored: StoredProgram,
        result: Result<SegmentResult, SegmentAbort>,
        started: tool::MonotonicTime,
    ) -> Result<StoredProgram, CallFailure> {
        let elapsed =
            self.programs.dependencies.clock.monotonic_now().saturating_duration_since(started);
        let now = self.programs.dependencies.clock.wall_now();
        let program = &mut stored.program;
        program.elapsed_ms += duration_millis(elapsed);
        match result {
            Ok(SegmentResult::Completed(value)) => {
                program.finish_program(now, ProgramStatus::Succeeded, Ok(value));
            }
            Ok(SegmentResult::Failed(why)) => {
                program.finish_program(now, ProgramStatus::Failed, Err(why));
            }
            Ok(SegmentResult::PendingApproval(checkpoint)) => {
                program.wait_for_approval(*checkpoint);
                self.enforce_pending_limit(program).await;
            }
            Ok(SegmentResult::Paused(checkpoint, tools)) => {
                program.pause_program(*checkpoint, &tools);
            }
            Err(SegmentAbort::Cancelled) => {
                let why = "its caller cancelled it".to_owned();
                program.finish_program(now, ProgramStatus::Cancelled, Err(why));
            }
            Err(SegmentAbort::OutcomeUnknown(why)) => {
                program.finish_program(now, ProgramStatus::Unknown, Err(why));
            }
            Err(SegmentAbort::Failed(failure)) => {
                program.finish_program(now, ProgramStatus::Failed, Err(failure.message));
            }
        }
        // A program without a wait is not stored; a paused one has waited, so it is stored.
        if stored.program.state != ProgramStatus::PendingApproval && !stored.is_stored() {
            return Ok(stored);
        }
        match self.programs.save_program(&mut stored).await {
            Err(failure)
                if matches!(failure.code, ErrorCode::RateLimited | ErrorCode::TooLarge) =>
            {
                self.fail_pending(&mut stored.program, failure.message).await;
                if stored.is_stored() {
                    self.programs.save_program(&mut stored).await?;
                }
            }
            saved => saved?,
        }
        Ok(stored)
    }

    /// Fails the program if too many programs are waiting already.
    async fn enforce_pending_limit(&self, program: &mut ProgramState) {
        if !self.programs.lock_index().has_room() {
            let why = "too many programs are waiting; try again later".to_owned();
            self.fail_pending(program, why).await;
        }
    }

    /// Fails a program that cannot wait, and withdraws its pending calls.
    async fn fail_pending(&self, program: &mut ProgramState, why: String) {
        for call in program.pending_calls() {
            drop(self.gateway.withdraw_call(self.principal, call).await);
        }
        program.finish_program(
            self.programs.dependencies.clock.wall_now(),
            ProgramStatus::Failed,
            Err(why),
        );
    }

    /// Saves the checkpoint before and after each call with possible side effects, so that a
    /// restart knows which calls were made.
    pub(crate) async fn save_checkpoint(
        &self,
        stored: &mut StoredProgram,
        checkpoint: Checkpoint,
    ) -> Result<(), SegmentAbort> {
        stored.program.checkpoint = Some(checkpoint);
        Ok(self.programs.save_program(stored).await?)
    }
}
