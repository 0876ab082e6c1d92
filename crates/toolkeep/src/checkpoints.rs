//! Has signed checkpoints written down, and what is not to be kept removed, beside the ledger: its own
//! threads know nothing of it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ledger::signed::{RecordKey, Seals};
use ledger::{FileLedger, Keep};
use tool::Clock;

/// How often it looks for a new checkpoint.
const LOOK: Duration = Duration::from_secs(1);
/// So many looks lie between two times that it is looked for what is not to be kept.
const LOOKS: u32 = 60;

/// Signs and writes down what the ledger seals, on a thread of its own: it waits for the disk.
pub(crate) struct Sealing {
    work: Arc<Work>,
    ticks: SyncSender<Tick>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tick {
    Seal,
    /// And look for what is not to be kept.
    Retain,
    /// And end.
    Last,
}

struct Work {
    ledger: Arc<FileLedger>,
    /// The thread's: it is held while the disk is waited for.
    seals: Mutex<Seals>,
    also: Mutex<Option<PathBuf>>,
    keep: Mutex<Keep>,
    /// Whether it is looked for what is not to be kept at once.
    again: AtomicBool,
    clock: Arc<dyn Clock>,
    failed: AtomicBool,
}

impl Sealing {
    pub(crate) fn new(
        ledger: Arc<FileLedger>,
        key: RecordKey,
        (dir, also): (PathBuf, Option<PathBuf>),
        clock: Arc<dyn Clock>,
    ) -> Self {
        let seals = Mutex::new(Seals::new(key, dir, also.clone()));
        let work = Work {
            ledger,
            seals,
            also: Mutex::new(also),
            keep: Mutex::default(),
            again: AtomicBool::new(true),
            clock,
            failed: AtomicBool::new(false),
        };
        let work = Arc::new(work);
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

    pub(crate) fn set_also(&self, also: Option<PathBuf>) {
        *self.work.also.lock().unwrap_or_else(PoisonError::into_inner) = also;
    }

    /// From here on so much is kept.
    pub(crate) fn set_keep(&self, keep: Keep) {
        *self.work.keep.lock().unwrap_or_else(PoisonError::into_inner) = keep;
        self.work.again.store(true, Ordering::Relaxed);
    }

    /// Never ends.
    pub(crate) async fn tend(&self) {
        let (mut seen, mut looks) = (0, 0_u32);
        loop {
            tokio::time::sleep(LOOK).await;
            looks += 1;
            let Some(checkpoint) = self.work.ledger.checkpoint() else { continue };
            if looks >= LOOKS || self.work.again.load(Ordering::Relaxed) {
                looks = 0;
                if self.ticks.try_send(Tick::Retain).is_ok() {
                    self.work.again.store(false, Ordering::Relaxed);
                    seen = checkpoint.count;
                }
                continue;
            }
            // Nothing is written where nothing was called. Where one is being written, the next look
            // finds what came meanwhile.
            let news = checkpoint.count != seen || self.work.failed.load(Ordering::Relaxed);
            if news && self.ticks.try_send(Tick::Seal).is_ok() {
                seen = checkpoint.count;
            }
        }
    }

    /// Writes the last one down. Waits for the disk.
    pub(crate) async fn end(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ticks = self.ticks.clone();
        let ended = tokio::task::spawn_blocking(move || {
            // Where the thread is gone there is nobody to tell.
            ticks.send(Tick::Last).ok();
            thread.map(JoinHandle::join)
        });
        drop(ended.await);
    }
}

impl Work {
    fn run(&self, due: &Receiver<Tick>) {
        while let Ok(tick) = due.recv() {
            self.keep(tick == Tick::Last);
            match tick {
                Tick::Seal => {}
                Tick::Retain => self.retain(),
                Tick::Last => return,
            }
        }
    }

    fn retain(&self) {
        let keep = *self.keep.lock().unwrap_or_else(PoisonError::into_inner);
        let seals = self.seals.lock().unwrap_or_else(PoisonError::into_inner);
        match seals.retain(&self.ledger, keep) {
            Ok(retained) => {
                if let Some(why) = &retained.stays {
                    tracing::info!(why, "a file of the record is due to go and stays");
                }
                if retained.removed > 0 {
                    let (files, bytes) = (retained.removed, retained.bytes);
                    tracing::info!(files, bytes, "removed from the record; tombstones stay");
                    // There may be more.
                    self.again.store(true, Ordering::Relaxed);
                }
            }
            Err(error) => tracing::warn!(%error, "what is not to be kept of the record stays"),
        }
    }

    fn keep(&self, last: bool) {
        let mut seals = self.seals.lock().unwrap_or_else(PoisonError::into_inner);
        seals.set_also(self.also.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let kept = seals.seal(&self.ledger, self.clock.mono(), last);
        if let Err(error) = &kept {
            tracing::warn!(%error, "checkpoint not kept");
        }
        self.failed.store(kept.is_err(), Ordering::Relaxed);
    }
}
