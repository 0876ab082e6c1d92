//! Signs and stores checkpoints of the record and applies retention, on a thread of its own. The
//! ledger's threads do not take part.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ledger::signed_checkpoint::{CheckpointPublisher, CheckpointSigningKey};
use ledger::{FileLedger, RetentionPolicy};
use tool::Clock;

/// Interval between checks for new records.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of checks between two retention runs.
const CHECKS_PER_RETENTION: u32 = 60;

/// Where signed checkpoints are written.
pub(crate) struct CheckpointFiles {
    /// The folder of the record.
    pub(crate) records_dir: PathBuf,
    /// A second file, on another disk.
    pub(crate) mirror: Option<PathBuf>,
}

/// Handle of the maintenance thread, which signs checkpoints and waits for the disk.
pub(crate) struct RecordMaintenance {
    worker: Arc<MaintenanceWorker>,
    jobs: SyncSender<MaintenanceJob>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The next job of the maintenance thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MaintenanceJob {
    Sign,
    /// Signs a checkpoint and applies retention.
    SignAndRetain,
    /// Signs the final checkpoint and ends the thread.
    SignAndStop,
}

struct MaintenanceWorker {
    ledger: Arc<FileLedger>,
    /// Used by the thread only; locked while it waits for the disk.
    signer: Mutex<CheckpointPublisher>,
    mirror: Mutex<Option<PathBuf>>,
    retention: Mutex<RetentionPolicy>,
    /// Whether retention runs at the next check.
    is_retention_due: AtomicBool,
    clock: Arc<dyn Clock>,
    last_write_failed: AtomicBool,
}

impl RecordMaintenance {
    pub(crate) fn new(
        ledger: Arc<FileLedger>,
        key: CheckpointSigningKey,
        files: CheckpointFiles,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let CheckpointFiles { records_dir, mirror } = files;
        let signer = Mutex::new(CheckpointPublisher::new(key, records_dir, mirror.clone()));
        let work = MaintenanceWorker {
            ledger,
            signer,
            mirror: Mutex::new(mirror),
            retention: Mutex::default(),
            is_retention_due: AtomicBool::new(true),
            clock,
            last_write_failed: AtomicBool::new(false),
        };
        let work = Arc::new(work);
        let (jobs, due) = sync_channel(1);
        let thread = std::thread::Builder::new().name("record-checkpoints".to_owned()).spawn({
            let work = Arc::clone(&work);
            move || work.run_jobs(&due)
        });
        let thread = thread.inspect_err(|error| {
            tracing::error!(%error, "cannot start the checkpoint thread; no checkpoints are signed");
        });
        Self { worker: work, jobs, thread: Mutex::new(thread.ok()) }
    }

    pub(crate) fn set_mirror(&self, mirror: Option<PathBuf>) {
        *self.worker.mirror.lock().unwrap_or_else(PoisonError::into_inner) = mirror;
    }

    /// Sets what the record retains; applied at the next check.
    pub(crate) fn set_retention(&self, retention: RetentionPolicy) {
        *self.worker.retention.lock().unwrap_or_else(PoisonError::into_inner) = retention;
        self.worker.is_retention_due.store(true, Ordering::Relaxed);
    }

    /// Schedules checkpoints and retention; runs until the server stops.
    pub(crate) async fn run_schedule(&self) {
        let (mut last_count, mut checks) = (0, 0_u32);
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            checks += 1;
            let Some(checkpoint) = self.worker.ledger.last_checkpoint() else { continue };
            if checks >= CHECKS_PER_RETENTION
                || self.worker.is_retention_due.load(Ordering::Relaxed)
            {
                checks = 0;
                if self.jobs.try_send(MaintenanceJob::SignAndRetain).is_ok() {
                    self.worker.is_retention_due.store(false, Ordering::Relaxed);
                    last_count = checkpoint.frame_count;
                }
                continue;
            }
            // Without new records there is no checkpoint. While one is being written, the next
            // check finds the records that arrived meanwhile.
            let has_new_records = checkpoint.frame_count != last_count
                || self.worker.last_write_failed.load(Ordering::Relaxed);
            if has_new_records && self.jobs.try_send(MaintenanceJob::Sign).is_ok() {
                last_count = checkpoint.frame_count;
            }
        }
    }

    /// Writes the final checkpoint and waits for the thread.
    pub(crate) async fn shut_down(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ticks = self.jobs.clone();
        let ended = tokio::task::spawn_blocking(move || {
            // Fails only if the thread has already ended.
            ticks.send(MaintenanceJob::SignAndStop).ok();
            thread.map(JoinHandle::join)
        });
        drop(ended.await);
    }
}

impl MaintenanceWorker {
    fn run_jobs(&self, due: &Receiver<MaintenanceJob>) {
        while let Ok(job) = due.recv() {
            self.write_checkpoint(job == MaintenanceJob::SignAndStop);
            match job {
                MaintenanceJob::Sign => {}
                MaintenanceJob::SignAndRetain => self.apply_retention(),
                MaintenanceJob::SignAndStop => return,
            }
        }
    }

    fn apply_retention(&self) {
        let retention = *self.retention.lock().unwrap_or_else(PoisonError::into_inner);
        let signer = self.signer.lock().unwrap_or_else(PoisonError::into_inner);
        match signer.apply_retention(&self.ledger, retention) {
            Ok(retained) => {
                if let Some(why) = &retained.blocked_reason {
                    tracing::info!(why, "an expired file of the record cannot be removed yet");
                }
                if retained.removed_segments > 0 {
                    let (files, bytes) = (retained.removed_segments, retained.removed_bytes);
                    tracing::info!(
                        files,
                        bytes,
                        "retention removed files of the record; \
                                                  tombstones stay"
                    );
                    // More files may be due.
                    self.is_retention_due.store(true, Ordering::Relaxed);
                }
            }
            Err(error) => tracing::warn!(%error, "cannot apply the record's retention"),
        }
    }

    fn write_checkpoint(&self, is_final: bool) {
        let mut signer = self.signer.lock().unwrap_or_else(PoisonError::into_inner);
        signer.set_second_path(self.mirror.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let written = signer.publish_latest(&self.ledger, self.clock.monotonic_now(), is_final);
        if let Err(error) = &written {
            tracing::warn!(%error, "cannot store a checkpoint");
        }
        self.last_write_failed.store(written.is_err(), Ordering::Relaxed);
    }
}
