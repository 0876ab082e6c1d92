//! Proof of an intent.

use std::fmt;
use std::sync::Arc;

use crate::outcome::Status;
use crate::{CallId, Interface};

/// Proof that a call's intent is on record. One is made for each intent, by the ledger; it ends in
/// [`Ledger::finish`](super::Ledger::finish), or is noted as abandoned where it is dropped.
pub struct Ticket {
    call: CallId,
    abandoned: Option<Box<dyn FnOnce(CallId) + Send + Sync>>,
    watch: Option<Watch>,
}

/// Tells how a call ended when it is dropped: a caller may go away at any time.
pub struct Watch {
    /// Is told the call's interface and its end, on the path of the call: it must not wait.
    pub hear: Hear,
    /// The call's.
    pub door: Interface,
    /// What it tells; nothing where it is not to.
    pub status: Option<Status>,
}

/// See [`Watch::hear`].
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
    /// For ledgers: a ticket whose drop calls `abandoned`.
    pub fn issue(call: CallId, abandoned: impl FnOnce(CallId) + Send + Sync + 'static) -> Self {
        Self { call, abandoned: Some(Box::new(abandoned)), watch: None }
    }

    /// For ledgers around ledgers: dropped with it, unless it is taken out before.
    #[must_use]
    pub fn watched(mut self, watch: Watch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Takes out what was put in; nothing where the ticket is another ledger's.
    pub fn unwatched(&mut self) -> Option<Watch> {
        self.watch.take()
    }

    /// Whose.
    pub fn call(&self) -> CallId {
        self.call
    }

    /// For ledgers: ends it without the note.
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
