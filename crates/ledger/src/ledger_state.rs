//! State protected by the ledger's lock: the active segment, the running calls and the work of the
//! sync thread.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;
use tool::{CallId, Durability, FastMap, LedgerError, MonotonicTime};

use crate::disk::DiskFile;
use crate::error_messages::{LowSpaceErrors, ledger_closed};
use crate::frame::FrameBuilder;
use crate::ledger_options::LedgerOptions;
use crate::record_index::SearchKey;
use crate::refusal_limit::RefusalRateLimiter;
use crate::writer_progress::ProgressFile;

/// Space in the reserve for the outcome of each running call; outcomes are smaller.
const OUTCOME_RESERVE_BYTES: u64 = 512;
/// Number of unsynced bytes that triggers a sync.
pub(crate) const SYNC_THRESHOLD_BYTES: usize = 4 << 20;

/// Mode that decides which records the ledger accepts.
#[derive(Debug)]
pub(crate) enum LedgerMode {
    /// Accepts all records.
    Accepting,
    /// Less space than the reserve is left: rejects records that must be synced.
    LowSpace(LowSpaceErrors),
    /// Rejects all records until a new segment can be created.
    Stopped(LedgerError),
    /// Rejects all records permanently.
    Closed,
}

/// The segment that is written.
#[derive(Debug, Clone)]
pub(crate) struct ActiveSegment {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) segment_number: u32,
    /// Offset after the last complete frame.
    pub(crate) size: u64,
    /// End of the allocated space; `None` if the file system cannot allocate.
    pub(crate) reserved_end: Option<u64>,
}

impl ActiveSegment {
    pub(crate) fn reserve_left(&self) -> u64 {
        self.reserved_end.map_or(0, |to| to.saturating_sub(self.size))
    }
}

/// A call with an open receipt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningCall {
    pub(crate) search_key: SearchKey,
    pub(crate) started_at: MonotonicTime,
}

/// Answers a caller that waits for the disk.
pub(crate) type SyncNotifier = oneshot::Sender<Result<(), LedgerError>>;
/// Receiver of the sync confirmation that a caller awaits.
pub(crate) type SyncConfirmation = oneshot::Receiver<Result<(), LedgerError>>;

#[derive(Debug)]
pub(crate) struct LedgerState {
    pub(crate) mode: LedgerMode,
    pub(crate) active_segment: Option<ActiveSegment>,
    /// Writer progress, stored beside the segments.
    pub(crate) progress: Option<ProgressFile>,
    pub(crate) next_seq: u64,
    /// Frames that were written and not taken by the sync thread yet.
    pub(crate) pending_frames: Vec<u8>,
    pub(crate) pending_records: u64,
    pub(crate) sync_waiters: Vec<SyncNotifier>,
    pub(crate) running_calls: FastMap<CallId, RunningCall>,
    /// Outcomes that could not be written; never more than there were running calls.
    pub(crate) deferred_outcomes: VecDeque<FrameBuilder>,
    pub(crate) refusals: RefusalRateLimiter,
    pub(crate) is_closing: bool,
}

impl LedgerState {
    pub(crate) fn new(options: &LedgerOptions, next_seq: u64, mode: LedgerMode) -> Self {
        Self {
            mode,
            active_segment: None,
            progress: None,
            next_seq,
            pending_frames: Vec::new(),
            pending_records: 0,
            sync_waiters: Vec::new(),
            running_calls: FastMap::default(),
            deferred_outcomes: VecDeque::new(),
            refusals: RefusalRateLimiter::new(options.max_refusals_per_second),
            is_closing: false,
        }
    }

    /// Returns the reason why no record is accepted, if there is one.
    pub(crate) fn check_health(&self, dir: &Path) -> Result<(), LedgerError> {
        match &self.mode {
            LedgerMode::Accepting => Ok(()),
            LedgerMode::LowSpace(short) => Err(short.synced_calls.clone()),
            LedgerMode::Stopped(why) => Err(why.clone()),
            LedgerMode::Closed => Err(ledger_closed(dir)),
        }
    }

    /// Checks whether an intent of this size may be written. An intent that uses the reserve must
    /// leave space for its outcome and for those of all running calls.
    pub(crate) fn check_intent(
        &self,
        durability: Durability,
        bytes: usize,
        dir: &Path,
    ) -> Result<(), LedgerError> {
        match &self.mode {
            LedgerMode::LowSpace(short) if durability == Durability::Written => self.check_reserve(
                bytes as u64 + OUTCOME_RESERVE_BYTES * (self.running_calls.len() as u64 + 1),
                short,
            ),
            _ => self.check_health(dir),
        }
    }

    /// Checks whether an outcome of this size may be written.
    pub(crate) fn check_outcome(&self, bytes: usize, dir: &Path) -> Result<(), LedgerError> {
        match &self.mode {
            LedgerMode::LowSpace(short) => self.check_reserve(bytes as u64, short),
            _ => self.check_health(dir),
        }
    }

    fn check_reserve(&self, bytes: u64, short: &LowSpaceErrors) -> Result<(), LedgerError> {
        match &self.active_segment {
            Some(active) if active.reserve_left() >= bytes => Ok(()),
            _ => Err(short.all_calls.clone()),
        }
    }

    /// Returns whether the sync thread has work before its next turn.
    pub(crate) fn needs_sync(&self, options: &LedgerOptions) -> bool {
        self.is_closing
            || !self.sync_waiters.is_empty()
            || self.pending_records >= options.checkpoint_records
            || self.pending_frames.len() >= SYNC_THRESHOLD_BYTES
    }
}
