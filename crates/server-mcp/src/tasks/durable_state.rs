//! The part of a task that outlives its process: its row, and the continuation of its call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use mcp::RpcError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tool::{CallId, Clock, ToolCall};

use super::call_task::CallTask;
use super::stored_task::{StoredTask, TaskContinuation};
use super::task_state::TaskResult;
use super::task_store::{TaskOwner, TaskStore};

/// Time within which a source takes up a continued call that is to be cancelled.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(5);

impl CallTask {
    /// The task of a row that an earlier process wrote.
    pub(super) fn from_row(store: TaskStore, row: StoredTask, clock: Arc<dyn Clock>) -> Arc<Self> {
        let root_key = row.root_key.clone();
        let state = row.into_state(clock.wall_now().0);
        let stored_bytes = match (&state.result, &state.continuation) {
            (Some(TaskResult::Completed(result)), _) => result.bytes().len(),
            (None, Some(continuation)) => continuation.size_bytes(),
            _ => 0,
        };
        Arc::new_cyclic(|me| Self {
            weak_self: Weak::clone(me),
            store,
            owner: TaskOwner::default(),
            root_key,
            rights: None,
            // Those of the client that continues it.
            capabilities: OnceLock::new(),
            clock,
            created: Notify::new(),
            continued: Notify::new(),
            stored_bytes: AtomicUsize::new(stored_bytes),
            state: Mutex::new(state),
            cancel: CancellationToken::new(),
        })
    }

    /// Writes the first row of the task.
    pub(super) async fn insert_row(&self) {
        if let Some((call, row)) = self.to_row() {
            self.store.rows().insert_row(call, &row).await;
        }
        // The task may have taken the place of a fetched one.
        self.store.flush_removals().await;
    }

    /// Writes the row of the task as it is now.
    pub(super) async fn replace_row(&self) {
        if let Some((call, row)) = self.to_row() {
            self.store.rows().replace_row(call, &row).await;
        }
    }

    fn to_row(&self) -> Option<(CallId, StoredTask)> {
        let state = self.lock_state();
        let call = state.ids.as_ref()?.call;
        Some((call, StoredTask::from_state(&state, &self.root_key)?))
    }

    /// Takes the continuation of a call of an earlier process. If `is_available` is false, the task
    /// stays as it is, with `reason` as its status.
    pub(super) fn take_continuation(
        &self,
        is_available: impl FnOnce(&TaskContinuation) -> bool,
        reason: &str,
    ) -> Option<(CallId, TaskContinuation)> {
        let mut state = self.lock_state();
        let continuation = state.continuation.clone().filter(|_| state.is_dormant)?;
        if !is_available(&continuation) {
            state.status_message = Some(reason.to_owned());
            return None;
        }
        state.is_dormant = false;
        state.status_message = None;
        Some((state.ids.as_ref()?.call, continuation))
    }

    /// Cancels the call. One that is being continued is cancelled when its source has taken it up, so
    /// that the source hears of it.
    pub(super) async fn cancel_call(self: &Arc<Self>) {
        if self.rights.is_none() && self.lock_state().result.is_none() {
            // The end of the call and the time limit notify too.
            drop(tokio::time::timeout(CONTINUE_TIMEOUT, self.continued.notified()).await);
        }
        self.cancel.cancel();
    }

    /// Ends the call with this process. A later process continues it if its source does.
    pub(super) fn suspend_call(&self) {
        {
            let mut state = self.lock_state();
            let can_continue = state.continuation.is_some() && state.result.is_none();
            state.is_suspended = can_continue && !self.cancel.is_cancelled();
        }
        self.cancel.cancel();
    }

    /// The error of a continued call names the restart: the source may have forgotten its task.
    pub(super) fn explain_failure(&self, error: RpcError) -> RpcError {
        if self.rights.is_some() {
            return error;
        }
        let message = format!("the server was restarted during the call; then: {}", error.message);
        RpcError { message, ..error }
    }

    /// Data with which a later process continues the call, if the limits allow it to be stored.
    pub(super) fn new_continuation(
        &self,
        call: &ToolCall,
        own: Option<Bytes>,
    ) -> Option<TaskContinuation> {
        let (own, rights) = own.zip(self.rights.as_ref())?;
        let continuation = TaskContinuation::new(call, &own, rights)?;
        let bytes = continuation.size_bytes();
        let fits = self.store.reserve_result_bytes(self, bytes);
        fits.then(|| self.stored_bytes.fetch_add(bytes, Ordering::Relaxed))?;
        Some(continuation)
    }
}
