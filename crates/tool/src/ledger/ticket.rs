//! Defines the proof that an intent is on record, and the guard that reports how a call ended.

use std::fmt;
use std::sync::Arc;

use crate::outcome::Status;
use crate::{CallId, Interface};

/// Proof that a call's intent is on record. The ledger creates one per intent; it ends in
/// [`Ledger::finish`](super::Ledger::finish), or is recorded as abandoned if it is dropped.
pub struct Ticket {
    call: CallId,
    abandoned: Option<Box<dyn FnOnce(CallId) + Send + Sync>>,
    watch: Option<Watch>,
}

/// Reports the final status of a call when it is dropped, so that a call is also reported if its
/// caller disconnects.
pub struct Watch {
    /// Callback with the interface and the status; it runs on the call path and must not block.
    pub hear: Hear,
    /// Interface of the call.
    pub door: Interface,
    /// Status to report; `None` reports nothing.
    pub status: Option<Status>,
}

/// Callback type of [`Watch::hear`].
pub type Hear = Arc<dyn Fn(Interface, Status) + Send + Sync>;

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(status) = self.status {
            (self.hear)(self.door, status);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({}, {:?})", self.door, self.status)
    }
}

impl Ticket {
    /// Creates a receipt that calls `abandoned` when it is dropped; for ledgers.
    pub fn issue(call: CallId, abandoned: impl FnOnce(CallId) + Send + Sync + 'static) -> Self {
        Self { call, abandoned: Some(Box::new(abandoned)), watch: None }
    }

    /// Attaches a guard that is dropped with the receipt unless it is taken out; for ledgers that
    /// wrap ledgers.
    #[must_use]
    pub fn watched(mut self, watch: Watch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Takes the attached guard out; `None` if none is attached.
    pub fn unwatched(&mut self) -> Option<Watch> {
        self.watch.take()
    }

    /// Returns the id of the call.
    pub fn call(&self) -> CallId {
        self.call
    }

    /// Completes the receipt without the abandonment callback; for ledgers.
    pub fn redeem(mut self) -> CallId {
        self.abandoned = None;
        self.call
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(abandoned) = self.abandoned.take() {
            abandoned(self.call);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.call)
    }
}
