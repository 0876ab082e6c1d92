//! Defines the port to the record. No call runs without an intent on record.

mod intent_receipt;
mod record;
mod record_body;
mod record_storage;
mod sandbox_usage;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::call_outcome::CallStatus;
use crate::{BoxFuture, CallId};
pub use intent_receipt::{CompletionGuard, CompletionObserver, IntentReceipt};
pub use record::{LedgerRecord, RecordFacts, RecordKind, RecordPage, RecordQuery, derive_status};
pub use record_body::{
    ApprovalStep, ApprovalStepRecord, AuditEventRecord, IntentRecord, OutcomeRecord, RefusalRecord,
    StepCaller,
};
pub use record_storage::{
    RecordInspector, RecordStorage, RecordVerification, StoredCheckpoint, WriterStorage,
};
pub use sandbox_usage::SandboxUsage;

/// Writes the record of every call: one intent before it runs, one outcome after.
pub trait Ledger: Send + Sync + fmt::Debug {
    /// Writes the intent, and resolves when it has the requested durability.
    ///
    /// # Errors
    /// [`LedgerError`]; the call must then not run.
    fn record_intent(
        &self,
        intent: IntentRecord,
        durability: Durability,
    ) -> BoxFuture<'_, Result<IntentReceipt, LedgerError>>;

    /// Writes the outcome and completes the receipt; `need` is that of the intent, and only `Full`
    /// waits for the disk here.
    ///
    /// # Errors
    /// [`LedgerError`]; the call then shows as unknown.
    fn record_outcome(
        &self,
        ticket: IntentReceipt,
        end: OutcomeRecord,
        need: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Records a step of a pending approval. It is handed to the kernel when this returns; an
    /// intent that follows is synced, and this record with it.
    ///
    /// # Errors
    /// [`LedgerError`]; the step must then not be taken.
    fn record_approval_step(&self, waited: &ApprovalStepRecord) -> Result<(), LedgerError>;

    /// Records a refused call. Rate-limited and never synced: losing one loses no effect.
    fn record_refusal(&self, refusal: RefusalRecord);

    /// Checks that intents can be written now.
    fn check_health(&self) -> Result<(), LedgerError>;
}

/// Records administrative changes, which decide over calls but are not calls.
pub trait AuditLog: Send + Sync + fmt::Debug {
    /// Writes the event: handed to the kernel when this returns, and on disk soon after.
    ///
    /// # Errors
    /// [`LedgerError`]; a caller about to widen what may be called must then not do so.
    fn record_event(&self, event: &AuditEventRecord) -> Result<(), LedgerError>;
}

/// Reads records of calls.
pub trait RecordReader: Send + Sync + fmt::Debug {
    /// Lists one page, newest first. The work for one page is bounded: see [`RecordPage::records`].
    ///
    /// # Errors
    /// [`LedgerError`].
    fn list_records(&self, query: RecordQuery) -> BoxFuture<'_, Result<RecordPage, LedgerError>>;

    /// Lists all records of one call, oldest first.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn list_for_call(&self, call: CallId) -> BoxFuture<'_, Result<Vec<LedgerRecord>, LedgerError>>;

    /// Returns true if a call without an outcome is running. The default is true; a ledger that
    /// outlives its process knows which calls run.
    fn is_running(&self, _call: CallId) -> bool {
        true
    }

    /// Returns the status of a call; `None` if it has no records.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn call_status(&self, call: CallId) -> BoxFuture<'_, Result<Option<CallStatus>, LedgerError>> {
        // Before the records are read: a call that ends meanwhile is then found with its outcome.
        let is_running = self.is_running(call);
        Box::pin(async move { Ok(derive_status(&self.list_for_call(call).await?, is_running)) })
    }
}

/// Durability that a record must have before the call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Handed to the kernel: survives `kill -9`.
    Written,
    /// Synced to disk: survives loss of power.
    Synced,
    /// Synced to disk; the outcome is synced too before the response is sent.
    Full,
}

/// Error of writing or reading the record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LedgerError {
    /// Message with the file and the remedy.
    pub message: String,
}

impl LedgerError {
    /// Creates an error with a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
