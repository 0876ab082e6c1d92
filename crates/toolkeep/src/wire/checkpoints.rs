//! Has signed checkpoints written down, beside the ledger: its own threads know nothing of it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ledger::FileLedger;
use ledger::signed::{RecordKey, Seals};
use tool::Clock;

/// How often it looks for a new checkpoint.
const LOOK: Duration = Duration::from_secs(1);

/// Signs and writes down what the ledger seals, on a thread of its own: it waits for the disk.
pub(super) struct Sealing {
    work: Arc<Work>,
    ticks: SyncSender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Work {
    ledger: Arc<FileLedger>,
    seals: Mutex<Seals>,
    clock: Arc<dyn Clock>,
    failed: AtomicBool,
}

impl Sealing {
    pub(super) fn new(
        ledger: Arc<FileLedger>,
        key: RecordKey,
        (dir, also): (PathBuf, Option<PathBuf>),
        clock: Arc<dyn Clock>,
    ) -> Self {
        let seals = Mutex::new(Seals::new(key, dir, also));
        let work = Arc::new(Work { ledger, seals, clock, failed: AtomicBool::new(false) });
        let (ticks, due) = sync_channel(1);
        let thread = std::thread::Builder::new().name("record-checkpoints".to_owned()).spawn({
            let work = Arc::clone(&work);
            move || work.run(&due)
        });
        let thread = thread.inspect_err(|error| {
            tracing::error!(%error, "no thread for checkpoints: none are signed");
        });
        Self { work, ticks, thread: Mutex::new(thread.ok()) }
    }

    pub(super) fn set_also(&self, also: Option<PathBuf>) {
        self.work.seals.lock().unwrap_or_else(PoisonError::into_inner).set_also(also);
    }

    /// Never ends.
    pub(super) async fn tend(&self) {
        let mut seen = 0;
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(checkpoint) = self.work.ledger.checkpoint() else { continue };
            // Nothing is written where nothing was called. Where one is being written, the next look
            // finds what came meanwhile.
            let news = checkpoint.count != seen || self.work.failed.load(Ordering::Relaxed);
            if news && self.ticks.try_send(false).is_ok() {
                seen = checkpoint.count;
            }
        }
    }

    /// Writes the last one down. Waits for the disk.
    pub(super) async fn end(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ticks = self.ticks.clone();
        let ended = tokio::task::spawn_blocking(move || {
            // Where the thread is gone there is nobody to tell.
            ticks.send(true).ok();
            thread.map(JoinHandle::join)
        });
        drop(ended.await);
    }
}

impl Work {
    fn run(&self, due: &Receiver<bool>) {
        while let Ok(last) = due.recv() {
            self.keep(last);
            if last {
                return;
            }
        }
    }

    fn keep(&self, last: bool) {
        let Some(checkpoint) = self.ledger.checkpoint() else { return };
        let mut seals = self.seals.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = seals.keep(&checkpoint, self.clock.mono(), last);
        if let Err(error) = &kept {
            tracing::warn!(%error, "checkpoint not kept");
        }
        self.failed.store(kept.is_err(), Ordering::Relaxed);
    }
}
