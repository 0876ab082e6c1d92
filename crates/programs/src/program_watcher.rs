//! Watcher of a program's state changes, and the methods that wait for them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use identity::Principal;
use serde_json::Value;
use tokio::sync::watch;
use tool::CallId;
use tool::call_outcome::CallFailure;

use crate::Programs;
use crate::program_index::ProgramSnapshot;
use crate::program_store::ProgramKey;

/// Receives the changes of one program.
pub(crate) struct ProgramWatcher {
    programs: Arc<Programs>,
    id: CallId,
    snapshots: Option<watch::Receiver<Option<Arc<ProgramSnapshot>>>>,
}

impl ProgramWatcher {
    /// Subscribes before the first read, so that no change is missed.
    pub(crate) fn new(programs: &Arc<Programs>, id: CallId) -> Self {
        let changes = Some(programs.lock_index().add_watcher(id));
        Self { programs: Arc::clone(programs), id, snapshots: changes }
    }

    /// Returns the next change; `None` after the last.
    pub(crate) async fn next_snapshot(&mut self) -> Option<Arc<ProgramSnapshot>> {
        let changes = self.snapshots.as_mut()?;
        changes.changed().await.ok()?;
        changes.borrow_and_update().clone()
    }
}

impl Drop for ProgramWatcher {
    fn drop(&mut self) {
        self.snapshots = None;
        self.programs.lock_index().remove_watcher(self.id);
    }
}

impl Programs {
    /// Returns a program of this caller, after waiting up to `wait` for its end. Resumes it if it
    /// can continue.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`](tool::ErrorCode::NotFound) if the program does not exist or belongs to another caller.
    pub async fn wait_for_program(
        self: &Arc<Self>,
        principal: &Principal,
        id: CallId,
        wait: Duration,
    ) -> Result<Value, CallFailure> {
        let until = self
            .dependencies
            .clock
            .monotonic_now()
            .saturating_add(wait.min(gateway::MAX_DECISION_TIMEOUT));
        let mut watcher = ProgramWatcher::new(self, id);
        let mut snapshot = self.current_snapshot(principal, id).await?;
        loop {
            let time = until.saturating_duration_since(self.dependencies.clock.monotonic_now());
            if snapshot.is_idle || time.is_zero() {
                return Ok(snapshot.view.clone());
            }
            tokio::select! {
                next = watcher.next_snapshot() => match next {
                    Some(next) => snapshot = next,
                    None => return Ok(self.current_snapshot(principal, id).await?.view.clone()),
                },
                () = tokio::time::sleep(time) => {}
            }
        }
    }

    /// Streams the view of a program of this caller: now, and after each change until it ends.
    ///
    /// # Errors
    /// As [`Programs::wait_for_program`].
    pub async fn watch_program(
        self: &Arc<Self>,
        principal: &Principal,
        id: CallId,
    ) -> Result<BoxStream<'static, Value>, CallFailure> {
        let watcher = ProgramWatcher::new(self, id);
        let now = self.current_snapshot(principal, id).await?;
        let more = futures_util::stream::unfold(
            (watcher, now.has_ended),
            async |(mut watcher, has_ended)| {
                if has_ended {
                    return None;
                }
                let next = watcher.next_snapshot().await?;
                Some((next.view.clone(), (watcher, next.has_ended)))
            },
        );
        let first = futures_util::stream::once(std::future::ready(now.view.clone()));
        Ok(first.chain(more).boxed())
    }

    /// Returns the current snapshot of a program and resumes it if it can continue.
    pub(crate) async fn current_snapshot(
        self: &Arc<Self>,
        principal: &Principal,
        id: CallId,
    ) -> Result<Arc<ProgramSnapshot>, CallFailure> {
        if let Some(running) =
            self.lock_index().running_snapshot(&ProgramKey::for_caller(principal.caller(), id))
        {
            return Ok(running);
        }
        let stored = self.load_owned(principal, id).await?;
        let snapshot = ProgramSnapshot::from_program(&stored.program);
        if !snapshot.is_idle {
            drop(self.spawn_resume(stored.program_key(), Some(principal.clone()), false));
        }
        Ok(Arc::new(snapshot))
    }
}
