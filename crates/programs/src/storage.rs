//! Storage of programs: writes within the quota of each root key, and bounded concurrent reads.

use std::sync::Arc;

use tool::ErrorCode;
use tool::call_outcome::CallFailure;

use crate::Programs;
use crate::program_head::{ProgramHead, ProgramHeadPages};
use crate::program_state::ProgramStatus;
use crate::program_store::{self, ProgramKey, StoredProgram};

/// Maximum size of a state in bytes: the store's 4 MiB minus the overhead of sealing.
const MAX_STATE_BYTES: usize = (4 << 20) - (1 << 10);

impl Programs {
    /// Saves a program if its stored version is unchanged. If its root key has too many programs,
    /// others are evicted.
    ///
    /// # Errors
    /// [`ErrorCode::Conflict`] after a concurrent write; [`ErrorCode::RateLimited`] and
    /// [`ErrorCode::TooLarge`] if the program exceeds the limits.
    pub(crate) async fn save_program(
        &self,
        program: &mut StoredProgram,
    ) -> Result<(), CallFailure> {
        let mut bytes = program.encode_state();
        if bytes.len() > MAX_STATE_BYTES && program.program.has_ended() {
            program.program.drop_result(bytes.len());
            bytes = program.encode_state();
        }
        if bytes.len() > MAX_STATE_BYTES {
            let message =
                format!("the program has {} bytes; the maximum is {MAX_STATE_BYTES}", bytes.len());
            return Err(CallFailure::new(ErrorCode::TooLarge, message));
        }
        let head = ProgramHead::from_program(&program.program, bytes.len());
        let evicted = self.lock_quota().admit_program(&head)?;
        for row in evicted {
            self.evict_program(&row).await;
        }
        let written = program.save(self.dependencies.store.as_ref(), (head, bytes)).await;
        if written.is_err() && !program.is_stored() {
            self.lock_quota().remove_program(&program.program.caller, program.program.id);
        }
        written
    }

    /// Loads the complete state of a program. A few are read at once: each may have megabytes.
    pub(crate) async fn load_program(
        &self,
        program_key: &ProgramKey,
    ) -> Result<Option<StoredProgram>, CallFailure> {
        // The semaphore is never closed.
        let _few = self.read_permits.acquire().await.ok();
        StoredProgram::load(self.dependencies.store.as_ref(), program_key).await
    }

    /// A program of a root key that has too many: one that has ended is forgotten, one that waits for its caller
    /// ends.
    async fn evict_program(&self, row: &ProgramKey) {
        // A program that runs again is no longer idle, and is counted when it is written.
        let Ok(claim) = self.claim_for_end(row) else { return };
        let evicted = async {
            let Some(mut kept) = self.load_program(row).await? else {
                return program_store::delete_program(self.dependencies.store.as_ref(), row).await;
            };
            if kept.program.has_ended() {
                return program_store::delete_program(self.dependencies.store.as_ref(), row).await;
            }
            if kept.program.state == ProgramStatus::Paused {
                let why = "its key had too many stored programs, and it was the oldest that waited \
                    for its caller";
                kept.program.finish_program(
                    self.dependencies.clock.wall_now(),
                    ProgramStatus::Expired,
                    Err(why.to_owned()),
                );
                let bytes = kept.encode_state();
                let head = ProgramHead::from_program(&kept.program, bytes.len());
                self.lock_quota().record_program(&head);
                kept.save(self.dependencies.store.as_ref(), (head, bytes)).await?;
                claim.publish_and_release(&kept, &[]);
            } else {
                self.lock_quota().record_program(&ProgramHead::from_program(
                    &kept.program,
                    kept.encode_state().len(),
                ));
            }
            Ok(())
        };
        let evicted: Result<(), CallFailure> = evicted.await;
        if let Err(failure) = evicted {
            tracing::warn!(program = %row.id, "cannot remove an old program: {}", failure.message);
        }
    }

    /// Ends expired programs, deletes old ones and enforces the limits.
    pub(crate) async fn expire_and_purge(self: &Arc<Self>) -> Result<(), CallFailure> {
        let (store, now) = (self.dependencies.store.as_ref(), self.dependencies.clock.wall_now());
        let mut heads = ProgramHeadPages::for_caller(store, None);
        while let Some(page) = heads.next_page().await? {
            for head in page {
                if program_store::is_past_retention(head.ended_at, now) {
                    program_store::delete_program(store, &head.program_key()).await?;
                    self.lock_quota().remove_program(&head.caller, head.id);
                } else if head.is_expired(now) {
                    drop(self.spawn_resume(head.program_key(), None, false));
                }
            }
        }
        let beyond = self.lock_quota().evict_excess();
        for row in beyond {
            self.evict_program(&row).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
