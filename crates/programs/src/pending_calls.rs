//! The calls that programs wait for, and which of them changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gateway::{Event, Heard};
use tokio::sync::mpsc;
use tool::CallId;

use crate::index::Index;

/// Changes of pending calls that wait to be looked at; what is lost is found by the next look.
const CHANGES: usize = 1_024;

/// The calls that programs wait for. It exists before the gateway that reports to it, and before the programs.
#[derive(Debug)]
pub struct PendingCalls {
    index: Mutex<Index>,
    changes: (mpsc::Sender<CallId>, Mutex<Option<mpsc::Receiver<CallId>>>),
}

impl PendingCalls {
    /// No program waits yet.
    pub fn new() -> Arc<Self> {
        let (sender, receiver) = mpsc::channel(CHANGES);
        let changes = (sender, Mutex::new(Some(receiver)));
        Arc::new(Self { index: Mutex::new(Index::new()), changes })
    }

    /// Takes an event of the gateway: a program that waits for the call goes on soon.
    pub fn notify(&self, event: &Event) {
        if event.heard == Heard::Changed && self.index().waits_for(event.shown.id).is_some() {
            self.queue(event.shown.id);
        }
    }

    /// The program that waits for this call is looked at soon.
    pub(crate) fn queue(&self, call: CallId) {
        // Where there is no room, the next look finds it.
        self.changes.0.try_send(call).ok();
    }

    /// The calls that changed. `None` from the second time on.
    pub(crate) fn changes(&self) -> Option<mpsc::Receiver<CallId>> {
        self.changes.1.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
