//! Proof of an intent.

use std::fmt;

use crate::CallId;

/// Proof that a call's intent is on record. One is made for each intent, by the ledger; it ends in
/// [`Ledger::finish`](super::Ledger::finish), or is noted as abandoned where it is dropped.
pub struct Ticket {
    call: CallId,
    abandoned: Option<Box<dyn FnOnce(CallId) + Send + Sync>>,
}

impl Ticket {
    /// For ledgers: a ticket whose drop calls `abandoned`.
    pub fn issue(call: CallId, abandoned: impl FnOnce(CallId) + Send + Sync + 'static) -> Self {
        Self { call, abandoned: Some(Box::new(abandoned)) }
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
