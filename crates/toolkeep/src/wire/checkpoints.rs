//! Has signed checkpoints written down, beside the ledger: its own threads know nothing of it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ledger::FileLedger;
use ledger::signed::{RecordKey, Seals};
use tool::Clock;

/// How often it looks for a new checkpoint.
const LOOK: Duration = Duration::from_secs(1);

/// Signs and writes down what the ledger seals.
#[derive(Clone)]
pub(super) struct Sealing {
    ledger: Arc<FileLedger>,
    seals: Arc<Mutex<Seals>>,
    clock: Arc<dyn Clock>,
}

impl Sealing {
    pub(super) fn new(
        ledger: Arc<FileLedger>,
        key: RecordKey,
        (dir, also): (PathBuf, Option<PathBuf>),
        clock: Arc<dyn Clock>,
    ) -> Self {
        let seals = Arc::new(Mutex::new(Seals::new(key, dir, also)));
        Self { ledger, seals, clock }
    }

    pub(super) fn set_also(&self, also: Option<PathBuf>) {
        self.seals.lock().unwrap_or_else(PoisonError::into_inner).set_also(also);
    }

    /// Never ends.
    pub(super) async fn tend(&self) {
        let (mut seen, mut failed) = (0, false);
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(checkpoint) = self.ledger.checkpoint() else { continue };
            // Nothing is written where nothing was called.
            if checkpoint.count != seen || failed {
                seen = checkpoint.count;
                failed = !self.keep(false).await;
            }
        }
    }

    /// Writes the last one down.
    pub(super) async fn end(&self) {
        self.keep(true).await;
    }

    async fn keep(&self, last: bool) -> bool {
        let Self { ledger, seals, clock } = self.clone();
        let kept = tokio::task::spawn_blocking(move || {
            let Some(checkpoint) = ledger.checkpoint() else { return Ok(()) };
            let mut seals = seals.lock().unwrap_or_else(PoisonError::into_inner);
            seals.keep(&checkpoint, clock.mono(), last)
        });
        match kept.await {
            Ok(Err(error)) => {
                tracing::warn!(%error, "checkpoint not kept");
                false
            }
            Ok(Ok(())) | Err(_) => true,
        }
    }
}
