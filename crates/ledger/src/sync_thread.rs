//! Sync thread: syncs written frames, hashes them, seals them by checkpoints, starts segments, and
//! recovers the ledger after a disk failure.
//!
//! After a failed sync, the system may have dropped the unwritten bytes and marked the file as
//! clean. A second sync that succeeds then proves nothing, so the file is never synced again. All
//! unconfirmed frames are still in memory. They are written with the same numbers to a new segment,
//! which gets its name only when it is durable. Until then the ledger accepts no records. Every
//! start does the same for frames that the previous process did not see confirmed.

mod segment_switch;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tool::clock::duration_millis;
use tool::ledger::RecordKind;
use tool::{LedgerError, MonotonicTime};

use crate::disk::{DirLock, DiskFile};
use crate::error_messages::{io_failure, ledger_closed};
use crate::frame::{FrameBuilder, iter_frames};
use crate::hash_chain::HashChain;
use crate::ledger_inner::LedgerInner;
use crate::ledger_state::{LedgerMode, LedgerState, SyncNotifier};
use crate::repair_plan::RepairPlan;
use crate::slice::rest;
use crate::writer_progress::{ProgressFile, WriterProgress};

/// A file with frames that are not known to be on the disk.
#[derive(Debug)]
pub(crate) struct UnsyncedFile {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) number: u32,
    /// Offset of the first frame.
    pub(crate) offset: u64,
}

/// State of the sync thread.
#[derive(Debug)]
pub(crate) struct SyncThread {
    pub(crate) inner: Arc<LedgerInner>,
    pub(crate) chain: HashChain,
    /// The frames that are not known to be on the disk.
    pub(crate) unsynced_frames: Vec<u8>,
    /// Number of bytes that are in the chain.
    pub(crate) hashed_bytes: usize,
    /// The files they are in.
    pub(crate) unsynced_files: Vec<UnsyncedFile>,
    /// Number of the last frame that was collected from the writers.
    pub(crate) collected_seq: u64,
    /// Number of the last frame that is known to be durable.
    pub(crate) synced_seq: u64,
    /// The number of the next segment.
    pub(crate) next_number: u32,
    /// Records since the last checkpoint.
    pub(crate) records_since_checkpoint: u64,
    pub(crate) last_checkpoint_at: MonotonicTime,
    pub(crate) rotation_failed: bool,
    /// Time of the last sync of the progress file.
    pub(crate) progress_synced_at: MonotonicTime,
    pub(crate) waiters: Vec<SyncNotifier>,
    /// Pending repairs of the previous process's files.
    pub(crate) repair_plan: Option<RepairPlan>,
    /// Keeps other processes away.
    pub(crate) dir_lock: Option<DirLock>,
}

impl SyncThread {
    /// Runs until the ledger is closed.
    pub(crate) fn run_thread(mut self) {
        let mut ending = ThreadExitGuard { inner: Arc::clone(&self.inner), is_orderly: false };
        loop {
            let idle = self.inner.wait_for_work(self.inner.options.checkpoint_interval);
            if self.inner.lock_state().is_closing {
                break;
            }
            self.run_once(idle);
        }
        self.close_writer();
        ending.is_orderly = true;
    }

    /// Runs one turn. With `is_idle` nothing requested it, so all deferrable work is done now.
    pub(crate) fn run_once(&mut self, is_idle: bool) {
        let inner = Arc::clone(&self.inner);
        let stopped = {
            let mut state = inner.lock_state();
            inner.write_deferred(&mut state);
            self.collect_pending(&mut state);
            matches!(state.mode, LedgerMode::Stopped(_) | LedgerMode::Closed)
        };
        if !stopped {
            self.sync_files();
        } else if is_idle || !self.waiters.is_empty() {
            self.resume_in_new_segment().ok();
        }
        self.hash_unsynced();
        self.checkpoint_if_due(is_idle);
        self.maintain_reserve();
        self.rotate_if_full(is_idle);
        self.sync_progress(is_idle);
    }

    /// Collects the frames that were written.
    fn collect_pending(&mut self, state: &mut LedgerState) {
        let new = state.pending_frames.len() as u64;
        if new > 0
            && let Some(active) = &state.active_segment
            && self.unsynced_files.last().is_none_or(|dirty| dirty.number != active.segment_number)
        {
            let file = Arc::clone(&active.file);
            self.unsynced_files.push(UnsyncedFile {
                file,
                number: active.segment_number,
                offset: active.size - new,
            });
        }
        if self.unsynced_frames.is_empty() {
            // They are not copied while calls wait for the state.
            std::mem::swap(&mut self.unsynced_frames, &mut state.pending_frames);
        } else {
            self.unsynced_frames.append(&mut state.pending_frames);
        }
        state.pending_records = 0;
        self.collected_seq = state.next_seq - 1;
        self.waiters.append(&mut state.sync_waiters);
        self.inner.unsynced_bytes.store(self.unsynced_frames.len(), Ordering::Relaxed);
    }

    /// Everything taken is on the disk.
    fn complete_sync(&mut self) {
        self.synced_seq = self.collected_seq;
        for waiter in self.waiters.drain(..) {
            // A caller that no longer waits has noted that itself.
            waiter.send(Ok(())).ok();
        }
        self.hash_unsynced();
        self.unsynced_frames.clear();
        self.hashed_bytes = 0;
        self.unsynced_files.clear();
        self.inner.unsynced_bytes.store(0, Ordering::Relaxed);
        if let Some(progress) = &mut self.inner.lock_state().progress {
            progress.write_progress(WriterProgress {
                synced_seq: self.synced_seq,
                ..progress.current_progress()
            });
        }
    }

    /// Syncs the progress file. Once a second suffices, because its earlier state is still true.
    fn sync_progress(&mut self, idle: bool) {
        let now = self.inner.clock.monotonic_now();
        if !idle
            && now.saturating_duration_since(self.progress_synced_at)
                < self.inner.options.checkpoint_interval
        {
            return;
        }
        let file = self.inner.lock_state().progress.as_mut().and_then(ProgressFile::take_unsynced);
        let Some(file) = file else { return };
        self.progress_synced_at = now;
        if let Err(error) = file.sync_data() {
            tracing::warn!(%error, "cannot write the progress file of the record");
        }
    }

    fn sync_files(&mut self) {
        if self.unsynced_frames.is_empty() {
            return;
        }
        let began = duration_millis(self.inner.clock.monotonic_now().0);
        self.inner.sync_started_ms.store(began.saturating_add(1), Ordering::Relaxed);
        let synced = self.unsynced_files.iter().try_for_each(|dirty| dirty.file.sync_data());
        self.inner.sync_started_ms.store(0, Ordering::Relaxed);
        match synced {
            Ok(()) => self.complete_sync(),
            Err(error) => {
                self.stop_writing("the disk lost written data", &error);
                self.resume_in_new_segment().ok();
            }
        }
    }

    fn stop_writing(&self, what: &str, error: &io::Error) -> LedgerError {
        let failure = io_failure(what, &self.inner.writer_dir.dir, error);
        tracing::error!(error = %failure, "recording has stopped");
        self.inner.lock_state().mode = LedgerMode::Stopped(failure.clone());
        failure
    }

    fn hash_unsynced(&mut self) {
        for frame in iter_frames(rest(&self.unsynced_frames, self.hashed_bytes)) {
            self.chain.append_frame(frame.seq, frame.bytes);
            self.records_since_checkpoint += u64::from(frame.kind != RecordKind::Checkpoint);
        }
        self.hashed_bytes = self.unsynced_frames.len();
    }

    /// Writes a checkpoint if one is due. It covers durable frames only, so that it can be stored
    /// elsewhere, and a missing frame below it cannot be the result of a crash.
    fn checkpoint_if_due(&mut self, idle: bool) {
        let now = self.inner.clock.monotonic_now();
        let options = &self.inner.options;
        let interval_passed = idle
            || now.saturating_duration_since(self.last_checkpoint_at)
                >= options.checkpoint_interval;
        let due = self.records_since_checkpoint >= options.checkpoint_records
            || (interval_passed && self.records_since_checkpoint > 0);
        if !due || self.synced_seq < self.chain.last_seq {
            return;
        }
        let writer = &self.inner.writer_dir.writer_name;
        let checkpoint = self.chain.to_checkpoint(writer, self.inner.clock.wall_now());
        let Ok(mut draft) = FrameBuilder::json(RecordKind::Checkpoint, None, &checkpoint) else {
            return;
        };
        let mut state = self.inner.lock_state();
        // The space that a full disk has left is for calls.
        if matches!(state.mode, LedgerMode::Accepting)
            && self.inner.append_frame(&mut state, &mut draft, None).is_ok()
        {
            self.records_since_checkpoint = 0;
            self.last_checkpoint_at = now;
            *self.inner.lock_checkpoint() = Some(checkpoint);
        }
    }

    /// Syncs and seals all records, and releases the directory.
    pub(crate) fn close_writer(&mut self) {
        self.run_once(true);
        self.run_once(true);
        let mut state = self.inner.lock_state();
        if let (Some(active), LedgerMode::Accepting | LedgerMode::LowSpace(_)) =
            (&state.active_segment, &state.mode)
        {
            active.file.truncate_to(active.size).ok();
            let closed = self.synced_seq == state.next_seq - 1;
            if let Some(mut progress) = state.progress.take() {
                progress.write_progress(WriterProgress {
                    is_closed: closed,
                    ..progress.current_progress()
                });
                if let Some(file) = progress.take_unsynced()
                    && let Err(error) = file.sync_data()
                {
                    tracing::warn!(%error, "cannot write the progress file of the record");
                }
            }
        }
        state.progress = None;
        state.mode = LedgerMode::Closed;
        state.active_segment = None;
        for waiter in state.sync_waiters.drain(..).chain(self.waiters.drain(..)) {
            waiter.send(Err(ledger_closed(&self.inner.writer_dir.dir))).ok();
        }
        drop(state);
        self.dir_lock = None;
    }
}

/// Stops the ledger if its thread ends unexpectedly: nothing would be synced or sealed.
struct ThreadExitGuard {
    inner: Arc<LedgerInner>,
    is_orderly: bool,
}

impl Drop for ThreadExitGuard {
    fn drop(&mut self) {
        if !self.is_orderly {
            let text = "the ledger's thread ended with an internal error of Toolkeep: restart the \
                server, and report it";
            self.inner.lock_state().mode = LedgerMode::Stopped(LedgerError::new(text));
        }
    }
}
