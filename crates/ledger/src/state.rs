//! What stands under the one lock of the ledger: the file that is written, the calls that run, and
//! what waits for the sync thread.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;
use tool::{CallId, Durability, LedgerError, Map, Mono};

use crate::disk::DiskFile;
use crate::failure::{Short, closed};
use crate::frame::Draft;
use crate::index::Label;
use crate::options::Options;
use crate::progress::ProgressFile;
use crate::refusals::Refusals;

/// Room that is kept in the reserve for the outcome of each running call; an outcome has less.
const OUTCOME_ROOM: u64 = 512;
/// So many bytes are synced without being asked.
pub(crate) const SYNC_BYTES: usize = 4 << 20;

/// What the ledger takes.
#[derive(Debug)]
pub(crate) enum Mode {
    /// Everything.
    Open,
    /// Less room is left than the reserve: nothing that must be synced.
    Low(Short),
    /// Nothing, until a new segment can be made.
    Stopped(LedgerError),
    /// Nothing, ever.
    Closed,
}

/// The segment that is written.
#[derive(Debug, Clone)]
pub(crate) struct Active {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) number: u32,
    /// Behind its last whole frame.
    pub(crate) size: u64,
    /// Room is set aside up to here; `None` where the file system cannot.
    pub(crate) reserved_to: Option<u64>,
}

impl Active {
    pub(crate) fn reserve_left(&self) -> u64 {
        self.reserved_to.map_or(0, |to| to.saturating_sub(self.size))
    }
}

/// A call whose ticket is out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Live {
    pub(crate) label: Label,
    pub(crate) since: Mono,
}

/// Answers a caller that waits for the disk.
pub(crate) type Waiter = oneshot::Sender<Result<(), LedgerError>>;
/// Where that caller waits.
pub(crate) type Confirmed = oneshot::Receiver<Result<(), LedgerError>>;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) mode: Mode,
    pub(crate) active: Option<Active>,
    /// Says beside the segments how far the writer has come.
    pub(crate) progress: Option<ProgressFile>,
    pub(crate) next_seq: u64,
    /// Frames that were written and not taken by the sync thread yet.
    pub(crate) pending: Vec<u8>,
    pub(crate) pending_records: u64,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) live: Map<CallId, Live>,
    /// Outcomes that could not be written; never more than there were running calls.
    pub(crate) owed: VecDeque<Draft>,
    pub(crate) refusals: Refusals,
    pub(crate) closing: bool,
}

impl State {
    pub(crate) fn new(options: &Options, next_seq: u64, mode: Mode) -> Self {
        Self {
            mode,
            active: None,
            progress: None,
            next_seq,
            pending: Vec::new(),
            pending_records: 0,
            waiters: Vec::new(),
            live: Map::default(),
            owed: VecDeque::new(),
            refusals: Refusals::new(options.refusals_per_second),
            closing: false,
        }
    }

    /// Why nothing can be taken, if so.
    pub(crate) fn health(&self, dir: &Path) -> Result<(), LedgerError> {
        match &self.mode {
            Mode::Open => Ok(()),
            Mode::Low(short) => Err(short.effects.clone()),
            Mode::Stopped(why) => Err(why.clone()),
            Mode::Closed => Err(closed(dir)),
        }
    }

    /// Whether an intent of so many bytes may be written now. Each one that is taken from the
    /// reserve leaves room there for its outcome and for those of all calls that run.
    pub(crate) fn admits_intent(
        &self,
        need: Durability,
        bytes: usize,
        dir: &Path,
    ) -> Result<(), LedgerError> {
        match &self.mode {
            Mode::Low(short) if need == Durability::Written => {
                self.fits(bytes as u64 + OUTCOME_ROOM * (self.live.len() as u64 + 1), short)
            }
            _ => self.health(dir),
        }
    }

    /// Whether an outcome of so many bytes may be written now.
    pub(crate) fn admits_outcome(&self, bytes: usize, dir: &Path) -> Result<(), LedgerError> {
        match &self.mode {
            Mode::Low(short) => self.fits(bytes as u64, short),
            _ => self.health(dir),
        }
    }

    fn fits(&self, bytes: u64, short: &Short) -> Result<(), LedgerError> {
        match &self.active {
            Some(active) if active.reserve_left() >= bytes => Ok(()),
            _ => Err(short.all.clone()),
        }
    }

    /// Whether the sync thread has something to do before its next turn.
    pub(crate) fn wants_turn(&self, options: &Options) -> bool {
        self.closing
            || !self.waiters.is_empty()
            || self.pending_records >= options.checkpoint_records
            || self.pending.len() >= SYNC_BYTES
    }
}
