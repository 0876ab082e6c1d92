//! Pending calls of programs, and the queue of those that changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gateway::{ApprovalEvent, ApprovalEventKind};
use tokio::sync::mpsc;
use tool::CallId;

use crate::program_index::ProgramIndex;

/// Maximum number of queued changes of pending calls. The next periodic scan finds lost ones.
const CHANGE_QUEUE: usize = 1_024;

/// Pending calls of programs. Created before the gateway, which reports to it, and before the
/// programs.
#[derive(Debug)]
pub struct PendingCalls {
    index: Mutex<ProgramIndex>,
    changes: (mpsc::Sender<CallId>, Mutex<Option<mpsc::Receiver<CallId>>>),
}

impl PendingCalls {
    /// Creates an empty set of pending calls.
    pub fn new() -> Arc<Self> {
        let (sender, receiver) = mpsc::channel(CHANGE_QUEUE);
        let changes = (sender, Mutex::new(Some(receiver)));
        Arc::new(Self { index: Mutex::new(ProgramIndex::new()), changes })
    }

    /// Handles an approval event of the gateway, and queues the program that waits for the call.
    pub fn handle_event(&self, event: &ApprovalEvent) {
        if event.kind == ApprovalEventKind::Changed
            && self.lock_index().program_waiting_for(event.approval.id).is_some()
        {
            self.queue_call(event.approval.id);
        }
    }

    /// Queues the program that waits for this call.
    pub(crate) fn queue_call(&self, call: CallId) {
        // If the queue is full, the next scan finds it.
        self.changes.0.try_send(call).ok();
    }

    /// Returns the receiver of changed calls; `None` from the second call on.
    pub(crate) fn take_changes(&self) -> Option<mpsc::Receiver<CallId>> {
        self.changes.1.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn lock_index(&self) -> MutexGuard<'_, ProgramIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
