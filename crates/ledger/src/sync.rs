//! The one thread that waits for the disk: it syncs what was written, hashes it, seals it by
//! checkpoints, begins new segments, and brings the ledger back when the disk does.
//!
//! When a sync fails, the system may have dropped the very bytes it could not write, and call the
//! file clean: a second sync that succeeds says nothing about them. So the file is never synced
//! again. All frames that were not known to be on the disk are still in memory; they go on into a
//! new segment, with the same numbers, which gets its name only when it is on the disk whole. Until
//! that worked, the ledger takes nothing. The same is done at every start, for what the process
//! before had not seen confirmed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tool::ledger::Kind;
use tool::{LedgerError, Mono};

use crate::chain::Chain;
use crate::disk::{DiskFile, Held};
use crate::failure::{closed, failed};
use crate::frame::{Draft, frames};
use crate::index::Place;
use crate::inner::Inner;
use crate::mend::Mend;
use crate::progress::{Progress, ProgressFile};
use crate::segment::{HEADER, Header, Made, Room, create, cut};
use crate::slice::rest;
use crate::state::{Active, Mode, State, Waiter};

/// A file with frames that are not known to be on the disk.
#[derive(Debug)]
pub(crate) struct Dirty {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) number: u32,
    /// Where the first of them begins.
    pub(crate) from: u64,
}

/// What the sync thread knows.
#[derive(Debug)]
pub(crate) struct Syncer {
    pub(crate) inner: Arc<Inner>,
    pub(crate) chain: Chain,
    /// The frames that are not known to be on the disk.
    pub(crate) carry: Vec<u8>,
    /// So many bytes of them are in the chain.
    pub(crate) hashed: usize,
    /// The files they are in.
    pub(crate) dirty: Vec<Dirty>,
    /// The last frame that was taken from those who write.
    pub(crate) taken: u64,
    /// The last frame that is known to be on the disk.
    pub(crate) synced: u64,
    /// The number of the next segment.
    pub(crate) next_number: u32,
    /// Records since the last checkpoint.
    pub(crate) records: u64,
    pub(crate) sealed_at: Mono,
    pub(crate) rotation_failed: bool,
    /// When what stands beside the segments was synced last.
    pub(crate) progress_at: Mono,
    pub(crate) waiters: Vec<Waiter>,
    /// What the process before left to be done.
    pub(crate) mend: Option<Mend>,
    /// Keeps other processes away.
    pub(crate) held: Option<Held>,
}

impl Syncer {
    /// Runs until the ledger is closed.
    pub(crate) fn run(mut self) {
        let mut ending = Ending { inner: Arc::clone(&self.inner), orderly: false };
        loop {
            let idle = self.inner.wait(self.inner.options.idle);
            if self.inner.lock().closing {
                break;
            }
            self.turn(idle);
        }
        self.close();
        ending.orderly = true;
    }

    /// One turn. `idle`: nothing asked for it, so everything that may wait is done now.
    pub(crate) fn turn(&mut self, idle: bool) {
        let inner = Arc::clone(&self.inner);
        let stopped = {
            let mut state = inner.lock();
            inner.settle(&mut state);
            self.take(&mut state);
            matches!(state.mode, Mode::Stopped(_) | Mode::Closed)
        };
        if !stopped {
            self.sync();
        } else if idle || !self.waiters.is_empty() {
            self.resume().ok();
        }
        self.hash();
        self.seal(idle);
        self.keep_reserve();
        self.rotate(idle);
        self.sync_progress(idle);
    }

    /// Takes over what was written.
    fn take(&mut self, state: &mut State) {
        let new = state.pending.len() as u64;
        if new > 0
            && let Some(active) = &state.active
            && self.dirty.last().is_none_or(|dirty| dirty.number != active.number)
        {
            let file = Arc::clone(&active.file);
            self.dirty.push(Dirty { file, number: active.number, from: active.size - new });
        }
        if self.carry.is_empty() {
            // They are not copied while calls wait for the state.
            std::mem::swap(&mut self.carry, &mut state.pending);
        } else {
            self.carry.append(&mut state.pending);
        }
        state.pending_records = 0;
        self.taken = state.next_seq - 1;
        self.waiters.append(&mut state.waiters);
        self.inner.unsynced.store(self.carry.len(), Ordering::Relaxed);
    }

    /// Everything taken is on the disk.
    fn confirmed(&mut self) {
        self.synced = self.taken;
        for waiter in self.waiters.drain(..) {
            // A caller that no longer waits has noted that itself.
            waiter.send(Ok(())).ok();
        }
        self.hash();
        self.carry.clear();
        self.hashed = 0;
        self.dirty.clear();
        self.inner.unsynced.store(0, Ordering::Relaxed);
        if let Some(progress) = &mut self.inner.lock().progress {
            progress.replace(Progress { synced: self.synced, ..progress.now() });
        }
    }

    /// Brings what stands beside the segments to the disk: once a second is enough, since what it said before is true
    /// as well.
    fn sync_progress(&mut self, idle: bool) {
        let now = self.inner.clock.mono();
        if !idle && now.since(self.progress_at) < self.inner.options.idle {
            return;
        }
        let file = self.inner.lock().progress.as_mut().and_then(ProgressFile::take_unsynced);
        let Some(file) = file else { return };
        self.progress_at = now;
        if let Err(error) = file.sync() {
            tracing::warn!(%error, "how far the record has come is not on the disk");
        }
    }

    fn sync(&mut self) {
        if self.carry.is_empty() {
            return;
        }
        let began = u64::try_from(self.inner.clock.mono().0.as_millis()).unwrap_or(u64::MAX - 1);
        self.inner.sync_since.store(began + 1, Ordering::Relaxed);
        let synced = self.dirty.iter().try_for_each(|dirty| dirty.file.sync());
        self.inner.sync_since.store(0, Ordering::Relaxed);
        match synced {
            Ok(()) => self.confirmed(),
            Err(error) => {
                self.stop("the disk did not keep what was written", &error);
                self.resume().ok();
            }
        }
    }

    fn stop(&self, what: &str, error: &io::Error) -> LedgerError {
        let told = failed(what, &self.inner.site.dir, error);
        tracing::error!(error = %told, "the record has stopped");
        self.inner.lock().mode = Mode::Stopped(told.clone());
        told
    }

    /// Goes on in a new segment, which begins with all that is not known to be on the disk.
    pub(crate) fn resume(&mut self) -> Result<(), LedgerError> {
        let inner = Arc::clone(&self.inner);
        {
            let mut state = inner.lock();
            self.take(&mut state);
            // Behind its last whole frame the old file may hold a part of one.
            if let Some(old) = &state.active
                && self.dirty.last().is_none_or(|dirty| dirty.number != old.number)
            {
                let file = Arc::clone(&old.file);
                self.dirty.push(Dirty { file, number: old.number, from: old.size });
            }
        }
        match self.make() {
            Ok(made) => {
                self.go_on(made);
                Ok(())
            }
            Err(error) => {
                let told = self.stop("no new segment can be made", &error);
                for waiter in self.waiters.drain(..) {
                    waiter.send(Err(told.clone())).ok();
                }
                Err(told)
            }
        }
    }

    fn make(&mut self) -> io::Result<Made> {
        let site = &self.inner.site;
        if let Some(mend) = &mut self.mend {
            // First, so that what is taken away is not missed by who looks at the files in between.
            if self.inner.lock().progress.is_none() {
                let progress = mend.progress(site, self.inner.clock.wall(), self.taken)?;
                self.inner.lock().progress = Some(progress);
            }
            mend.apply(site, self.inner.clock.wall())?;
        }
        self.mend = None;
        let room = Room { bytes: self.inner.options.reserve_bytes, needed: false };
        create(site, &self.header(self.taken), &self.carry, room)
    }

    fn header(&self, synced: u64) -> Header {
        Header {
            writer: self.inner.site.writer.clone(),
            number: self.next_number,
            session: self.inner.session,
            synced,
            at: self.inner.clock.wall(),
            nonce: self.inner.nonce(self.next_number),
            has_progress: true,
        }
    }

    fn go_on(&mut self, made: Made) {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        let short = made.full.as_ref().map(|error| self.short(error));
        if let Some(short) = &short {
            tracing::error!(error = %short.effects, "the record is short of room");
        }
        {
            let mut state = self.inner.lock();
            if let Some(progress) = &mut state.progress {
                let (written, synced) = (self.taken, self.taken);
                let (boot, now) = (self.inner.site.disk.boot(), progress.now());
                progress.replace(Progress { boot, segment: number, written, synced, ..now });
            }
            let to = Place { number, offset: HEADER as u64 };
            self.inner.index().relocate(to, frames(&self.carry));
            state.mode = short.map_or(Mode::Open, Mode::Low);
            state.active = Some(active(made, number));
            self.inner.settle(&mut state);
        }
        for old in &self.dirty {
            // What was carried over is told from what was not by its number, too: the next start
            // or the next check of the record finds the rest.
            if let Err(error) = cut(old.file.as_ref(), old.from) {
                tracing::warn!(%error, segment = old.number, "an old segment could not be cut");
            }
        }
        self.confirmed();
        self.inner.filter_work.want();
    }

    fn hash(&mut self) {
        for frame in frames(rest(&self.carry, self.hashed)) {
            self.chain.push(frame.seq, frame.whole);
            self.records += u64::from(frame.kind != Kind::Checkpoint);
        }
        self.hashed = self.carry.len();
    }

    /// Writes a checkpoint, if one is due. It speaks of nothing that is not on the disk, so that it
    /// can be kept elsewhere, and so that what is missing below it did not go by a crash.
    fn seal(&mut self, idle: bool) {
        let now = self.inner.clock.mono();
        let options = &self.inner.options;
        let waited = idle || now.since(self.sealed_at) >= options.idle;
        let due = self.records >= options.checkpoint_records || (waited && self.records > 0);
        if !due || self.synced < self.chain.through {
            return;
        }
        let writer = &self.inner.site.writer;
        let checkpoint = self.chain.checkpoint(writer, self.inner.clock.wall());
        let Ok(mut draft) = Draft::new(Kind::Checkpoint, None, &checkpoint) else { return };
        let mut state = self.inner.lock();
        // What is left of a full disk is for calls.
        if matches!(state.mode, Mode::Open)
            && self.inner.append(&mut state, &mut draft, None).is_ok()
        {
            self.records = 0;
            self.sealed_at = now;
            *self.inner.checkpoint() = Some(checkpoint);
        }
    }

    /// Begins a new segment, if this one has grown enough.
    fn rotate(&mut self, idle: bool) {
        let grown = match &*self.inner.lock() {
            State { mode: Mode::Open, active: Some(active), .. } => {
                active.size >= self.inner.options.segment_bytes
            }
            _ => false,
        };
        // A disk that would not have a new segment is not asked on every turn.
        if !grown || (self.rotation_failed && !idle) {
            return;
        }
        let room = Room { bytes: self.inner.options.reserve_bytes, needed: true };
        let made = create(&self.inner.site, &self.header(self.synced), &[], room);
        self.rotation_failed = made.is_err();
        match made {
            Ok(made) => self.switch(made),
            Err(error) => {
                let told = failed("no new segment can be made", &self.inner.site.dir, &error);
                tracing::warn!(error = %told, "the record goes on in its old segment");
            }
        }
    }

    fn switch(&mut self, made: Made) {
        let inner = Arc::clone(&self.inner);
        let old = {
            let mut state = inner.lock();
            if !matches!(state.mode, Mode::Open) {
                return;
            }
            self.take(&mut state);
            if !matches!(state.mode, Mode::Open) {
                return;
            }
            if let Some(progress) = &mut state.progress {
                progress.replace(Progress { segment: self.next_number, ..progress.now() });
            }
            state.active.replace(active(made, self.next_number))
        };
        self.next_number = self.next_number.saturating_add(1);
        inner.filter_work.want();
        if let Some(old) = old
            && let Err(error) = old.file.truncate(old.size)
        {
            tracing::warn!(%error, segment = old.number, "room set aside was not given back");
        }
        self.sync();
    }

    /// Syncs and seals all there is, and lets go of the directory.
    pub(crate) fn close(&mut self) {
        self.turn(true);
        self.turn(true);
        let mut state = self.inner.lock();
        if let (Some(active), Mode::Open | Mode::Low(_)) = (&state.active, &state.mode) {
            active.file.truncate(active.size).ok();
            let closed = self.synced == state.next_seq - 1;
            if let Some(mut progress) = state.progress.take() {
                progress.replace(Progress { closed, ..progress.now() });
                if let Some(file) = progress.take_unsynced()
                    && let Err(error) = file.sync()
                {
                    tracing::warn!(%error, "how far the record has come is not on the disk");
                }
            }
        }
        state.progress = None;
        state.mode = Mode::Closed;
        state.active = None;
        for waiter in state.waiters.drain(..).chain(self.waiters.drain(..)) {
            waiter.send(Err(closed(&self.inner.site.dir))).ok();
        }
        drop(state);
        self.held = None;
    }
}

fn active(made: Made, number: u32) -> Active {
    let Made { file, size, reserved_to, full: _ } = made;
    Active { file, number, size, reserved_to }
}

/// Stops the ledger where its thread dies: without it nothing would be synced or sealed.
struct Ending {
    inner: Arc<Inner>,
    orderly: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.orderly {
            let text = "the ledger's thread ended by a fault in Toolkeep: restart the server, and report it";
            self.inner.lock().mode = Mode::Stopped(LedgerError::new(text));
        }
    }
}
