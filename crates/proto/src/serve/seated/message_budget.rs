//! Limits for messages that arrive slowly: how long one may take, and how many bytes of unfinished
//! messages a connection may have in memory.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tonic::Status;

use crate::MAX_MESSAGE;

/// The longest that a message may take to arrive, from its headers on.
pub(super) const MESSAGE_TIME: Duration = Duration::from_secs(30);
/// Bytes of unfinished messages of one connection: six of the largest.
const MOST: usize = 6 * MAX_MESSAGE;

/// Bytes of the unfinished messages of one connection.
#[derive(Default)]
pub(super) struct MessageBudget(AtomicUsize);

/// The part of the budget that one message takes. Returned when dropped.
pub(super) struct Reservation<B: Deref<Target = MessageBudget>> {
    budget: B,
    bytes: usize,
}

impl<B: Deref<Target = MessageBudget>> Reservation<B> {
    pub(super) fn new(budget: B) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Adds bytes that arrived.
    ///
    /// # Errors
    /// Where the connection's unfinished messages have too many.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), Status> {
        let before = self.budget.0.fetch_add(bytes, Ordering::Relaxed);
        self.bytes = self.bytes.saturating_add(bytes);
        if before.saturating_add(bytes) <= MOST {
            return Ok(());
        }
        let told = format!(
            "the unfinished messages of this connection have over {MOST} bytes; send fewer at once"
        );
        Err(Status::resource_exhausted(told))
    }
}

impl<B: Deref<Target = MessageBudget>> Drop for Reservation<B> {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The answer where a message took too long to arrive.
pub(super) fn too_slow() -> Status {
    let seconds = MESSAGE_TIME.as_secs();
    Status::deadline_exceeded(format!("the message did not arrive within {seconds} s"))
}
