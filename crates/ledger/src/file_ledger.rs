//! The file ledger, the interface for the rest of the program.

use std::future::ready;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use tool::ledger::{
    RecordInspector, RecordStorage, RecordVerification, StoredCheckpoint, WriterStorage,
};
use tool::{
    ApprovalStepRecord, BoxFuture, Clock, Durability, IntentReceipt, IntentRecord, Ledger,
    LedgerError, OutcomeRecord, RefusalRecord,
};

use crate::disk::Disk;
use crate::error_messages::{io_failure, ledger_closed, sync_timeout};
use crate::hash_chain::LedgerCheckpoint;
use crate::ledger_inner::LedgerInner;
use crate::ledger_options::LedgerOptions;
use crate::ledger_state::SyncConfirmation;
use crate::record_summary::{WriterSummary, summarize_writers};
use crate::recovery::{RecoveryReport, open_ledger};
use crate::segment::WriterDir;

/// The record of all calls, in append-only files of one directory. The crate documentation states
/// its guarantees. Its futures need a tokio runtime with timers.
///
/// Dropping it closes it; see [`FileLedger::close_ledger`].
#[derive(Debug)]
pub struct FileLedger {
    pub(crate) inner: Arc<LedgerInner>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Builds the filters of segments.
    filters: Mutex<Option<JoinHandle<()>>>,
    /// What was found when the record was opened.
    opened: OpenedRecord,
}

/// What opening the record found, in numbers.
#[derive(Debug, Clone, Copy)]
struct OpenedRecord {
    damage_count: u64,
    unknown_calls: usize,
}

/// Free bytes below which the record will soon refuse calls with effects.
pub const MIN_FREE_BYTES: u64 = 256 << 20;

impl FileLedger {
    /// Opens the record in `dir`, creates the directory if it does not exist, and starts the sync
    /// thread.
    ///
    /// A full or failing disk does not prevent opening. [`Ledger::check_health`] then reports the error
    /// and calls are refused until the disk recovers. [`RecoveryReport`] lists damage.
    ///
    /// # Errors
    /// The directory cannot be created or read, another process has locked it, or a segment has a
    /// newer format.
    pub fn open_directory(
        dir: &Path,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: LedgerOptions,
    ) -> Result<(Self, RecoveryReport), LedgerError> {
        let site = WriterDir { disk, dir: dir.to_owned(), writer_name: options.writer.clone() };
        let (inner, syncer, recovery) = open_ledger(site, clock, options)?;
        let thread = std::thread::Builder::new()
            .name("ledger-sync".to_owned())
            .spawn(move || syncer.run_thread())
            .map_err(|error| io_failure("cannot start the thread of the record", dir, &error))?;
        let of_filters = Arc::clone(&inner);
        let filters = std::thread::Builder::new()
            .name("ledger-filters".to_owned())
            .spawn(move || crate::filter_thread::run_filter_thread(&of_filters));
        // Without the thread, searches read whole segments.
        let filters = filters.inspect_err(
            |error| tracing::warn!(%error, "cannot start the thread of the record's filters"),
        );
        let (thread, filters) = (Mutex::new(Some(thread)), Mutex::new(filters.ok()));
        let opened = OpenedRecord {
            damage_count: recovery.findings.len() as u64 + recovery.more_findings,
            unknown_calls: recovery.open_call_count,
        };
        Ok((Self { inner, thread, filters, opened }, recovery))
    }

    /// Syncs and seals all records, and unlocks the directory. Blocks on the disk. Open receipts
    /// cannot be completed afterwards; the outcome of their calls is `unknown`.
    pub fn close_ledger(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.inner.filter_work.stop_thread();
        let filters = self.filters.lock().unwrap_or_else(PoisonError::into_inner).take();
        if filters.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the record's filters panicked");
        }
        if let Some(thread) = thread {
            self.inner.request_close();
            if thread.join().is_err() {
                tracing::error!("the ledger's thread panicked");
            }
        }
    }

    /// Returns the last recorded checkpoint. Stored elsewhere, it later proves that no earlier
    /// record was removed or rewritten; see [`crate::verify_record`].
    pub fn last_checkpoint(&self) -> Option<LedgerCheckpoint> {
        self.inner.lock_checkpoint().clone()
    }

    async fn wait_for_sync(&self, confirmed: SyncConfirmation) -> Result<(), LedgerError> {
        let wait = self.inner.options.sync_timeout;
        match tokio::time::timeout(wait, confirmed).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(ledger_closed(&self.inner.writer_dir.dir)),
            Err(_) => Err(sync_timeout(&self.inner.writer_dir.dir, wait)),
        }
    }

    async fn wait_for_intent_sync(
        &self,
        ticket: IntentReceipt,
        confirmed: SyncConfirmation,
    ) -> Result<IntentReceipt, LedgerError> {
        match self.wait_for_sync(confirmed).await {
            Ok(()) => Ok(ticket),
            Err(error) => {
                self.inner.append_not_executed(ticket.mark_complete());
                Err(error)
            }
        }
    }

    fn write_outcome(
        &self,
        ticket: IntentReceipt,
        end: &OutcomeRecord,
        need: Durability,
    ) -> Result<Option<SyncConfirmation>, LedgerError> {
        if !self.inner.is_running(ticket.call_id()) {
            let call = ticket.call_id();
            return Err(LedgerError::new(format!(
                "the ticket of call `{call}` was not issued by this ledger"
            )));
        }
        self.inner.append_outcome(ticket.mark_complete(), end, need)
    }
}

impl RecordInspector for FileLedger {
    fn read_storage(&self) -> BoxFuture<'_, Result<RecordStorage, LedgerError>> {
        let (opened, last) = (self.opened, self.last_checkpoint());
        let found_later = self.inner.damaged_segments.load(Ordering::Relaxed);
        Box::pin(async move {
            let read = self.run_read(|inner| {
                let site = &inner.writer_dir;
                let writers = summarize_writers(&site.dir, &site.disk);
                writers.map(|writers| (writers, site.disk.free_bytes(&site.dir)))
            });
            let (writers, free_bytes) = read.await??;
            Ok(RecordStorage {
                writers: writers.into_iter().map(WriterStorage::from).collect(),
                free_bytes,
                min_free_bytes: MIN_FREE_BYTES,
                last_checkpoint: last.map(|last| StoredCheckpoint {
                    through: last.last_seq,
                    root: last.root,
                    created_at: last.created_at,
                }),
                damage_count: opened.damage_count + found_later,
                unknown_calls: opened.unknown_calls,
            })
        })
    }

    fn verify_record(&self) -> BoxFuture<'_, Result<RecordVerification, LedgerError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            // On a thread of its own: this reads for minutes, and neither a search nor the end of the
            // process waits for it.
            let (sender, verified) = oneshot::channel();
            let verify = move || {
                let site = &inner.writer_dir;
                let verified = crate::verification::verify_record(&site.dir, &site.disk, &[]);
                // Nobody waits where the process ends.
                drop(sender.send(verified));
            };
            let thread = std::thread::Builder::new().name("record verification".to_owned());
            let failed =
                |error| LedgerError::new(format!("the verification does not start: {error}"));
            drop(thread.spawn(verify).map_err(failed)?);
            let stopped = |_| LedgerError::new("the verification of the record was stopped");
            verified.await.map_err(stopped)?.map(RecordVerification::from)
        })
    }
}

impl From<WriterSummary> for WriterStorage {
    fn from(summary: WriterSummary) -> Self {
        Self {
            writer: summary.writer,
            segments: summary.segments,
            bytes: summary.bytes,
            oldest_at: summary.oldest_at,
            removed_segments: summary.removed_segments,
        }
    }
}

impl Drop for FileLedger {
    fn drop(&mut self) {
        self.close_ledger();
    }
}

impl Ledger for FileLedger {
    fn record_intent(
        &self,
        intent: IntentRecord,
        need: Durability,
    ) -> BoxFuture<'_, Result<IntentReceipt, LedgerError>> {
        // The intent is written at once; only a required sync is awaited.
        match self.inner.append_intent(&intent, need) {
            Ok((ticket, Some(confirmed))) => Box::pin(self.wait_for_intent_sync(ticket, confirmed)),
            Ok((ticket, None)) => Box::pin(ready(Ok(ticket))),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn record_outcome(
        &self,
        ticket: IntentReceipt,
        end: OutcomeRecord,
        need: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        match self.write_outcome(ticket, &end, need) {
            Ok(Some(confirmed)) => Box::pin(self.wait_for_sync(confirmed)),
            Ok(None) => Box::pin(ready(Ok(()))),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn record_approval_step(&self, waited: &ApprovalStepRecord) -> Result<(), LedgerError> {
        self.inner.append_approval_step(waited)
    }

    fn record_refusal(&self, refusal: RefusalRecord) {
        self.inner.append_refusal(&refusal);
    }

    fn check_health(&self) -> Result<(), LedgerError> {
        self.inner.check_health()
    }
}
