//! The ledger's shared state and its locks: the handle, the receipts and the sync thread use it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tool::ledger::RecordQuery;
use tool::{CallId, Caller, Clock, LedgerError, MonotonicTime, WallTime};

use crate::error_messages::sync_timeout;
use crate::filter_thread::FilterWork;
use crate::hash_chain::LedgerCheckpoint;
use crate::ledger_options::LedgerOptions;
use crate::ledger_state::{LedgerMode, LedgerState};
use crate::record_index::{RecordIndex, SearchKey, WantedSearchKey};
use crate::segment::WriterDir;
use crate::writer_progress::WriterProgress;

/// Attempts to lock before the thread sleeps: some microseconds, about the duration of a write.
const LOCK_SPIN_LIMIT: usize = 200;

/// A call whose receipt was dropped while another thread held the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DroppedReceipt {
    pub(crate) call_id: CallId,
    pub(crate) wall: WallTime,
    pub(crate) mono: MonotonicTime,
}

/// The ledger, shared by its handle, its tickets and its sync thread.
#[derive(Debug)]
pub(crate) struct LedgerInner {
    pub(crate) writer_dir: WriterDir,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: LedgerOptions,
    /// The first number of this process.
    pub(crate) first_seq: u64,
    pub(crate) state: Mutex<LedgerState>,
    wake: Condvar,
    index: Mutex<RecordIndex>,
    hasher: RandomState,
    pub(crate) dropped_receipts: Mutex<Vec<DroppedReceipt>>,
    checkpoint: Mutex<Option<LedgerCheckpoint>>,
    /// Bytes that the sync thread has collected and not yet synced.
    pub(crate) unsynced_bytes: AtomicUsize,
    /// Start of the running sync in milliseconds of the monotonic clock, plus one; 0 if none runs.
    pub(crate) sync_started_ms: AtomicU64,
    /// Searches through old segments that run at a time.
    pub(crate) search_permits: Semaphore,
    /// Work queue of the filter thread.
    pub(crate) filter_work: FilterWork,
    /// Segments whose frames the start did not read.
    unchecked_segments: Mutex<Vec<u32>>,
    /// Number of segments in which damage was found after the start.
    pub(crate) damaged_segments: AtomicU64,
}

pub(crate) fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LedgerInner {
    pub(crate) fn new(
        writer_dir: WriterDir,
        clock: Arc<dyn Clock>,
        options: LedgerOptions,
        next_seq: u64,
    ) -> Self {
        let opening = LedgerError::new("the record is being opened; try again in a moment");
        Self {
            state: Mutex::new(LedgerState::new(&options, next_seq, LedgerMode::Stopped(opening))),
            index: Mutex::new(RecordIndex::new(options.max_index_entries, options.segment_bytes)),
            writer_dir,
            clock,
            options,
            first_seq: next_seq,
            wake: Condvar::new(),
            hasher: RandomState::new(),
            dropped_receipts: Mutex::new(Vec::new()),
            checkpoint: Mutex::new(None),
            unsynced_bytes: AtomicUsize::new(0),
            sync_started_ms: AtomicU64::new(0),
            search_permits: Semaphore::new(2),
            filter_work: FilterWork::default(),
            unchecked_segments: Mutex::new(Vec::new()),
            damaged_segments: AtomicU64::new(0),
        }
    }

    /// Locks the state. If a thread panicked while it held the lock, nothing is written until a new
    /// segment holds all frames that are known to be complete.
    pub(crate) fn lock_state(&self) -> MutexGuard<'_, LedgerState> {
        // The lock is usually held for one record; spinning costs less than sleeping.
        for _ in 0..LOCK_SPIN_LIMIT {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
                Err(TryLockError::Poisoned(_)) => break,
            }
        }
        self.state.lock().unwrap_or_else(|poisoned| {
            self.state.clear_poison();
            let mut state = poisoned.into_inner();
            if !matches!(state.mode, LedgerMode::Closed) {
                let text = "an internal error of Toolkeep while writing a record; please report it";
                state.mode = LedgerMode::Stopped(LedgerError::new(text));
            }
            state
        })
    }

    /// Poisons the lock for tests: a thread panics while it holds the state.
    #[cfg(test)]
    pub(crate) fn poison(self: &Arc<Self>) {
        let inner = Arc::clone(self);
        std::thread::spawn(move || {
            let _state = inner.lock_state();
            panic!("a fault for a test");
        })
        .join()
        .unwrap_err();
    }

    pub(crate) fn lock_index(&self) -> MutexGuard<'_, RecordIndex> {
        lock_mutex(&self.index)
    }

    pub(crate) fn lock_unchecked_segments(&self) -> MutexGuard<'_, Vec<u32>> {
        lock_mutex(&self.unchecked_segments)
    }

    pub(crate) fn lock_checkpoint(&self) -> MutexGuard<'_, Option<LedgerCheckpoint>> {
        lock_mutex(&self.checkpoint)
    }

    pub(crate) fn search_key(&self, org: &str, tool: &str, caller: &str) -> SearchKey {
        let [org, tool, caller] = [org, tool, caller].map(|name| self.hasher.hash_one(name));
        SearchKey { org, tool, caller }
    }

    /// Returns the search key of a call of this caller.
    pub(crate) fn search_key_of_call(&self, caller: &Caller, tool: &str) -> SearchKey {
        self.search_key(caller.org.as_str(), tool, &caller.subject)
    }

    /// Returns a nonce of segment `number` that no other process has.
    pub(crate) fn segment_nonce(&self, number: u32) -> u64 {
        self.hasher.hash_one(number)
    }

    /// Waits for work, for at most `idle`. Returns whether that time passed.
    pub(crate) fn wait_for_work(&self, idle: Duration) -> bool {
        let state = self.lock_state();
        let outcome =
            self.wake.wait_timeout_while(state, idle, |state| !state.needs_sync(&self.options));
        outcome.is_ok_and(|(_, wait)| wait.timed_out())
    }

    pub(crate) fn request_close(&self) {
        self.lock_state().is_closing = true;
        self.wake.notify_one();
    }

    pub(crate) fn check_health(&self) -> Result<(), LedgerError> {
        self.lock_state().check_health(&self.writer_dir.dir)?;
        match self.sync_started_ms.load(Ordering::Relaxed) {
            0 => Ok(()),
            since => {
                let started_at = MonotonicTime(Duration::from_millis(since - 1));
                let elapsed = self.clock.monotonic_now().saturating_duration_since(started_at);
                let hangs = elapsed >= self.options.sync_timeout;
                if hangs { Err(sync_timeout(&self.writer_dir.dir, elapsed)) } else { Ok(()) }
            }
        }
    }

    /// Returns the hashed names that a query requests.
    pub(crate) fn wanted_search_key(&self, query: &RecordQuery) -> WantedSearchKey {
        let hash = |name: &str| self.hasher.hash_one(name);
        WantedSearchKey {
            org: query.org.as_ref().map(|org| hash(org.as_str())),
            tool: query.tool.as_deref().map(hash),
            caller: query.caller.as_deref().map(hash),
        }
    }

    pub(crate) fn wake_sync_thread(&self, state: &LedgerState) {
        if state.needs_sync(&self.options) {
            self.wake.notify_one();
        }
    }

    /// Records the sequence number up to which a signed checkpoint exists beside the segments.
    pub(crate) fn set_signed_through(&self, seq: u64) {
        if let Some(progress) = &mut self.lock_state().progress {
            progress
                .write_progress(WriterProgress { signed_seq: seq, ..progress.current_progress() });
        }
    }

    /// Returns whether this ledger holds the receipt of a running call.
    pub(crate) fn is_running(&self, call: CallId) -> bool {
        self.lock_state().running_calls.contains_key(&call)
    }
}
