//! The port to the record. No intent on record, no execution.

mod body;
mod caged;
mod record;
mod ticket;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::outcome::Status;
use crate::{Boxed, CallId};
pub use body::{End, Event, Intent, Refusal, WaitStep, Waited};
pub use caged::Caged;
pub use record::{Kind, Page, Query, Record, RecordFacts, standing};
pub use ticket::{Hear, Ticket, Watch};

/// What keeps the record of every call: one intent before it runs, one outcome after.
pub trait Ledger: Send + Sync + fmt::Debug {
    /// Writes the intent, and resolves when it is as durable as asked.
    ///
    /// # Errors
    /// [`LedgerError`]; the call must then not run.
    fn begin(&self, intent: Intent, need: Durability) -> Boxed<'_, Result<Ticket, LedgerError>>;

    /// Writes the outcome and ends the ticket; `need` is that of the intent, and only `Full` waits for
    /// the disk here.
    ///
    /// # Errors
    /// [`LedgerError`]; the call then shows as unknown.
    fn finish(
        &self,
        ticket: Ticket,
        end: End,
        need: Durability,
    ) -> Boxed<'_, Result<(), LedgerError>>;

    /// Notes a step of a call that is held. Handed to the kernel when this returns; the intent that may
    /// follow is synced, and with it this.
    ///
    /// # Errors
    /// [`LedgerError`]; the step must then not be taken.
    fn wait(&self, waited: &Waited) -> Result<(), LedgerError>;

    /// Notes a call that was refused. Rate-capped and never synced: losing one loses no effect.
    fn refuse(&self, refusal: Refusal);

    /// Whether intents can be written now, and if not, why.
    fn health(&self) -> Result<(), LedgerError>;
}

/// Takes down what decides over calls and is no call itself.
pub trait Events: Send + Sync + fmt::Debug {
    /// Writes it: handed to the system when this returns, on the disk soon after.
    ///
    /// # Errors
    /// [`LedgerError`]; whoever was about to widen what may be called must then not do it.
    fn note(&self, event: &Event) -> Result<(), LedgerError>;
}

/// Reads the record.
pub trait Records: Send + Sync + fmt::Debug {
    /// One page, newest first. The work for one page is bounded: see [`Page::records`].
    ///
    /// # Errors
    /// [`LedgerError`].
    fn list(&self, query: Query) -> Boxed<'_, Result<Page, LedgerError>>;

    /// All that is on record of one call, oldest first.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn of_call(&self, call: CallId) -> Boxed<'_, Result<Vec<Record>, LedgerError>>;

    /// Whether a call without an outcome runs. As given, each one does: a ledger that outlives its process knows which do.
    fn is_running(&self, _call: CallId) -> bool {
        true
    }

    /// Where a call stands; `None` where nothing is on record of it.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn status(&self, call: CallId) -> Boxed<'_, Result<Option<Status>, LedgerError>> {
        // Before the records are read: a call that ends meanwhile is then found with its outcome.
        let is_running = self.is_running(call);
        Box::pin(async move { Ok(standing(&self.of_call(call).await?, is_running)) })
    }
}

/// How sure a record must be before the call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Handed to the kernel: survives `kill -9`.
    Written,
    /// On the disk: survives loss of power.
    Synced,
    /// On the disk, and its outcome is too before it is answered.
    Full,
}

/// The record cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LedgerError {
    /// In words, with the file and what to do.
    pub message: String,
}

impl LedgerError {
    /// In words.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
