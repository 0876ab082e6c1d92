//! Defines the proof that an intent is on record, and the guard that reports how a call ended.

use std::fmt;
use std::sync::Arc;

use crate::call_outcome::CallStatus;
use crate::{CallId, Interface};

/// Proof that a call's intent is on record. The ledger creates one per intent; it ends in
/// [`Ledger::record_outcome`](super::Ledger::record_outcome), or is recorded as abandoned if it is
/// dropped.
pub struct IntentReceipt {
    call_id: CallId,
    on_abandon: Option<Box<dyn FnOnce(CallId) + Send + Sync>>,
    completion_guard: Option<CompletionGuard>,
}

/// Reports the final status of a call when it is dropped, so that a call is also reported if its
/// caller disconnects.
pub struct CompletionGuard {
    /// Callback with the interface and the status; it runs on the call path and must not block.
    pub observer: CompletionObserver,
    /// Interface of the call.
    pub interface: Interface,
    /// Status to report; `None` reports nothing.
    pub status: Option<CallStatus>,
}

/// Callback type of [`CompletionGuard::observer`].
pub type CompletionObserver = Arc<dyn Fn(Interface, CallStatus) + Send + Sync>;

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        if let Some(status) = self.status {
            (self.observer)(self.interface, status);
        }
    }
}

impl fmt::Debug for CompletionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({}, {:?})", self.interface, self.status)
    }
}

impl IntentReceipt {
    /// Creates a receipt that calls `on_abandon` when it is dropped; for ledgers.
    pub fn with_abandon_hook(
        call: CallId,
        on_abandon: impl FnOnce(CallId) + Send + Sync + 'static,
    ) -> Self {
        Self { call_id: call, on_abandon: Some(Box::new(on_abandon)), completion_guard: None }
    }

    /// Attaches a guard that is dropped with the receipt unless it is taken out; for ledgers that
    /// wrap ledgers.
    #[must_use]
    pub fn with_completion_guard(mut self, guard: CompletionGuard) -> Self {
        self.completion_guard = Some(guard);
        self
    }

    /// Takes the attached guard out; `None` if none is attached.
    pub fn take_completion_guard(&mut self) -> Option<CompletionGuard> {
        self.completion_guard.take()
    }

    /// Returns the id of the call.
    pub fn call_id(&self) -> CallId {
        self.call_id
    }

    /// Completes the receipt without the abandonment callback; for ledgers.
    pub fn mark_complete(mut self) -> CallId {
        self.on_abandon = None;
        self.call_id
    }
}

impl Drop for IntentReceipt {
    fn drop(&mut self) {
        if let Some(abandoned) = self.on_abandon.take() {
            abandoned(self.call_id);
        }
    }
}

impl fmt::Debug for IntentReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.call_id)
    }
}
