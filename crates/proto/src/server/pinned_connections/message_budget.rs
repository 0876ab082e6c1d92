//! Limits of incomplete messages: the time for one message, and the memory for all of a connection.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tonic::Status;

use crate::MAX_MESSAGE_BYTES;

/// Timeout of a message, from its headers on.
pub(super) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of the incomplete messages of a connection, in bytes: six messages of maximum size.
const MAX_UNFINISHED_BYTES: usize = 6 * MAX_MESSAGE_BYTES;

/// The size of the incomplete messages of one connection, in bytes.
#[derive(Default)]
pub(super) struct MessageBudget(AtomicUsize);

/// The part of the budget that one message uses. Returned when dropped.
pub(super) struct BudgetReservation<B: Deref<Target = MessageBudget>> {
    budget: B,
    bytes: usize,
}

impl<B: Deref<Target = MessageBudget>> BudgetReservation<B> {
    pub(super) fn new(budget: B) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Adds bytes that arrived.
    ///
    /// # Errors
    /// Fails if the incomplete messages of the connection exceed the limit.
    pub(super) fn reserve_bytes(&mut self, bytes: usize) -> Result<(), Status> {
        let previous = self.budget.0.fetch_add(bytes, Ordering::Relaxed);
        self.bytes = self.bytes.saturating_add(bytes);
        if previous.saturating_add(bytes) <= MAX_UNFINISHED_BYTES {
            return Ok(());
        }
        let message = format!(
            "the incomplete messages of this connection have more than {MAX_UNFINISHED_BYTES} \
             bytes; send fewer at once"
        );
        Err(Status::resource_exhausted(message))
    }
}

impl<B: Deref<Target = MessageBudget>> Drop for BudgetReservation<B> {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Returns the status of a message that timed out.
pub(super) fn timeout_status() -> Status {
    let seconds = MESSAGE_TIMEOUT.as_secs();
    Status::deadline_exceeded(format!("the message was not received within {seconds} s"))
}
