//! Writing: intents, outcomes, refusals. One lock and one write, in the caller's own thread.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tool::ledger::{Kind, Query};
use tool::outcome::Status;
use tool::{
    CallId, Caller, Clock, Code, Durability, End, Intent, LedgerError, Mono, Refusal, Ticket,
    Waited, Wall,
};

use crate::chain::Checkpoint;
use crate::failure::{behind, slow};
use crate::filters::FilterWork;
use crate::frame::Draft;
use crate::index::{Entry, Index, Label, Place, WantedLabel};
use crate::options::Options;
use crate::progress::Progress;
use crate::segment::Site;
use crate::state::{Confirmed, Live, Mode, State};

/// Looks at the lock before a thread sleeps over it: some microseconds, about what a write takes.
const SPINS: usize = 200;

/// A call that was dropped while the lock was taken.
#[derive(Debug, Clone, Copy)]
struct Late {
    call: CallId,
    wall: Wall,
    mono: Mono,
}

/// The ledger, shared by its handle, its tickets and its sync thread.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) site: Site,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    /// The first number of this process.
    pub(crate) session: u64,
    state: Mutex<State>,
    wake: Condvar,
    index: Mutex<Index>,
    hasher: RandomState,
    late: Mutex<Vec<Late>>,
    checkpoint: Mutex<Option<Checkpoint>>,
    /// Bytes that the sync thread took and has not synced.
    pub(crate) unsynced: AtomicUsize,
    /// When the running sync began, in milliseconds of the monotonic clock and one more; 0: none.
    pub(crate) sync_since: AtomicU64,
    /// Searches through old segments that run at a time.
    pub(crate) searches: Semaphore,
    /// What the thread of the filters is to do.
    pub(crate) filter_work: FilterWork,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    pub(crate) fn new(site: Site, clock: Arc<dyn Clock>, options: Options, next_seq: u64) -> Self {
        let opening = LedgerError::new("the record is being opened; call again in a moment");
        Self {
            state: Mutex::new(State::new(&options, next_seq, Mode::Stopped(opening))),
            index: Mutex::new(Index::new(options.index_entries, options.segment_bytes)),
            site,
            clock,
            options,
            session: next_seq,
            wake: Condvar::new(),
            hasher: RandomState::new(),
            late: Mutex::new(Vec::new()),
            checkpoint: Mutex::new(None),
            unsynced: AtomicUsize::new(0),
            sync_since: AtomicU64::new(0),
            searches: Semaphore::new(2),
            filter_work: FilterWork::default(),
        }
    }

    /// The state. Where a thread died holding it, nothing is written any more until a new segment
    /// was made of what is known to be whole.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // It is mostly held for one record: waiting that out costs less than sleeping over it.
        for _ in 0..SPINS {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
                Err(TryLockError::Poisoned(_)) => break,
            }
        }
        self.state.lock().unwrap_or_else(|poisoned| {
            self.state.clear_poison();
            let mut state = poisoned.into_inner();
            if !matches!(state.mode, Mode::Closed) {
                let text = "a fault in Toolkeep while a record was written; please report it";
                state.mode = Mode::Stopped(LedgerError::new(text));
            }
            state
        })
    }

    /// For tests: a thread dies while it holds the state.
    #[cfg(test)]
    pub(crate) fn poison(self: &Arc<Self>) {
        let inner = Arc::clone(self);
        std::thread::spawn(move || {
            let _state = inner.lock();
            panic!("a fault for a test");
        })
        .join()
        .unwrap_err();
    }

    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }

    pub(crate) fn checkpoint(&self) -> MutexGuard<'_, Option<Checkpoint>> {
        lock(&self.checkpoint)
    }

    pub(crate) fn label(&self, org: &str, tool: &str, caller: &str) -> Label {
        let [org, tool, caller] = [org, tool, caller].map(|name| self.hasher.hash_one(name));
        Label { org, tool, caller }
    }

    /// The label of a call of this caller.
    pub(crate) fn label_of(&self, caller: &Caller, tool: &str) -> Label {
        self.label(caller.org.as_str(), tool, &caller.subject)
    }

    /// A number that no other process has for the segment `number`.
    pub(crate) fn nonce(&self, number: u32) -> u64 {
        self.hasher.hash_one(number)
    }

    /// Waits for work, `idle` at the longest. Returns whether that time passed.
    pub(crate) fn wait(&self, idle: Duration) -> bool {
        let state = self.lock();
        let waited =
            self.wake.wait_timeout_while(state, idle, |state| !state.wants_turn(&self.options));
        waited.is_ok_and(|(_, waited)| waited.timed_out())
    }

    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_one();
    }

    pub(crate) fn health(&self) -> Result<(), LedgerError> {
        self.lock().health(&self.site.dir)?;
        match self.sync_since.load(Ordering::Relaxed) {
            0 => Ok(()),
            since => {
                let began = Mono(Duration::from_millis(since - 1));
                let waited = self.clock.mono().since(began);
                let hangs = waited >= self.options.sync_wait;
                if hangs { Err(slow(&self.site.dir, waited)) } else { Ok(()) }
            }
        }
    }

    /// Writes one frame. The one place that does.
    pub(crate) fn append(
        &self,
        state: &mut State,
        draft: &mut Draft,
        label: Option<Label>,
    ) -> Result<(), LedgerError> {
        let seq = state.next_seq;
        let Some(active) = &state.active else {
            state.health(&self.site.dir)?;
            return Err(LedgerError::new("the record has no segment to write to"));
        };
        let place = Place { number: active.number, offset: active.size };
        let bytes = draft.seal(seq);
        if let Err(error) = state.write(bytes) {
            return Err(self.write_failed(state, &error));
        }
        state.next_seq += 1;
        state.pending.extend_from_slice(bytes);
        state.pending_records += 1;
        self.index().push(Entry { seq, place, kind: draft.kind, call: draft.call, label });
        Ok(())
    }

    /// Writes an intent. Resolves later, where it is to be synced.
    pub(crate) fn intent(
        self: &Arc<Self>,
        intent: &Intent,
        need: Durability,
    ) -> Result<(Ticket, Option<Confirmed>), LedgerError> {
        let call = intent.call;
        let mut draft = Draft::intent(intent)?;
        let label = self.label_of(&intent.caller, intent.tool.name.as_str());
        let live = Live { label, since: self.clock.mono() };
        let mut state = self.lock();
        state.admits_intent(need, draft.len(), &self.site.dir)?;
        let waiting = state.pending.len() + self.unsynced.load(Ordering::Relaxed);
        if waiting + draft.len() > self.options.unsynced_bytes {
            return Err(behind(&self.site.dir, waiting));
        }
        if call.0.is_nil() || state.live.contains_key(&call) {
            return Err(LedgerError::new(format!(
                "the call `{call}` has an intent on record already: give each call an id of its own"
            )));
        }
        state.live.insert(call, live);
        if let Err(error) = self.append(&mut state, &mut draft, Some(label)) {
            state.live.remove(&call);
            return Err(error);
        }
        let confirmed = (need >= Durability::Synced).then(|| wait_in(&mut state));
        self.nudge(&state);
        drop(state);
        let inner = Arc::clone(self);
        Ok((Ticket::issue(call, move |call| inner.abandon(call)), confirmed))
    }

    fn nudge(&self, state: &State) {
        if state.wants_turn(&self.options) {
            self.wake.notify_one();
        }
    }

    /// A signed checkpoint up to this number stands beside the segments.
    pub(crate) fn signed(&self, through: u64) {
        if let Some(progress) = &mut self.lock().progress {
            progress.replace(Progress { signed: through, ..progress.now() });
        }
    }

    /// Whether the call's ticket is one of this ledger's.
    pub(crate) fn is_live(&self, call: CallId) -> bool {
        self.lock().live.contains_key(&call)
    }

    /// Writes an outcome. Where that fails it is kept and written as soon as it can be.
    pub(crate) fn outcome(
        &self,
        call: CallId,
        end: &End,
        need: Durability,
    ) -> Result<Option<Confirmed>, LedgerError> {
        let draft = Draft::outcome(call, end)?;
        let mut state = self.lock();
        self.append_outcome(&mut state, draft)?;
        let confirmed = (need == Durability::Full).then(|| wait_in(&mut state));
        self.nudge(&state);
        Ok(confirmed)
    }

    fn append_outcome(&self, state: &mut State, mut draft: Draft) -> Result<(), LedgerError> {
        let live = draft.call.and_then(|call| state.live.get(&call));
        let label = live.map(|live| live.label);
        let written = state
            .admits_outcome(draft.len(), &self.site.dir)
            .and_then(|()| self.append(state, &mut draft, label));
        if written.is_err() {
            state.owed.push_back(draft);
        } else if let Some(call) = draft.call {
            state.live.remove(&call);
        }
        written
    }

    /// A call whose intent was not confirmed: it did not run.
    pub(crate) fn not_run(&self, call: CallId) {
        let code = Some(Code::RecordUnavailable);
        let end = end(Status::Refused, code, (self.clock.wall(), Duration::ZERO));
        // Where it cannot be written now, it is owed.
        self.outcome(call, &end, Durability::Written).ok();
    }

    /// For the drop of a ticket: never waits for the disk. Where another thread is writing, the
    /// sync thread does it on its next turn.
    fn abandon(&self, call: CallId) {
        let late = Late { call, wall: self.clock.wall(), mono: self.clock.mono() };
        match self.state.try_lock() {
            Ok(mut state) => self.abandon_in(&mut state, late),
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => {
                lock(&self.late).push(late);
            }
        }
    }

    fn abandon_in(&self, state: &mut State, late: Late) {
        let Some(live) = state.live.get(&late.call) else { return };
        let took = late.mono.since(live.since);
        let end = end(Status::Abandoned, None, (late.wall, took));
        match Draft::outcome(late.call, &end) {
            // Where it cannot be written now, it is owed.
            Ok(draft) => {
                self.append_outcome(state, draft).ok();
            }
            Err(error) => tracing::error!(%error, call = %late.call, "an abandoned call"),
        }
    }

    /// Writes a step of a held call: as an intent that need not be synced.
    pub(crate) fn waited(&self, waited: &Waited) -> Result<(), LedgerError> {
        let mut draft = Draft::new(Kind::Wait, Some(waited.call), waited)?;
        let label = self.label_of(&waited.caller, waited.tool.name.as_str());
        let mut state = self.lock();
        state.admits_intent(Durability::Written, draft.len(), &self.site.dir)?;
        self.append(&mut state, &mut draft, Some(label))?;
        self.nudge(&state);
        Ok(())
    }

    /// Notes a refusal, or counts it.
    pub(crate) fn refuse(&self, refusal: &Refusal) {
        let now = self.clock.mono();
        let mut state = self.lock();
        self.settle_gap(&mut state);
        // The reserve is for calls that run.
        let open = matches!(state.mode, Mode::Open);
        // Past the cap a refusal costs next to nothing: it is not even encoded.
        let written = open && state.refusals.take(now) && {
            let label = self.label_of(&refusal.caller, &refusal.tool);
            Draft::new(Kind::Refused, Some(refusal.call), refusal)
                .and_then(|mut draft| self.append(&mut state, &mut draft, Some(label)))
                .is_ok()
        };
        if !written {
            state.refusals.drop_some(1, refusal.at);
        }
        self.nudge(&state);
    }

    fn settle_gap(&self, state: &mut State) {
        if !matches!(state.mode, Mode::Open) {
            return;
        }
        let Some(gap) = state.refusals.gap(self.clock.mono(), self.clock.wall()) else { return };
        let written = Draft::new(Kind::Gap, None, &gap)
            .and_then(|mut draft| self.append(state, &mut draft, None));
        if written.is_err() {
            state.refusals.drop_some(gap.refused, gap.from);
        }
    }

    /// Before the record is read: calls that were dropped while another thread wrote have ended, and
    /// who reads must see that.
    pub(crate) fn settle_late(&self) {
        if !lock(&self.late).is_empty() {
            self.abandon_late(&mut self.lock());
        }
    }

    fn abandon_late(&self, state: &mut State) {
        let late = std::mem::take(&mut *lock(&self.late));
        for late in late {
            self.abandon_in(state, late);
        }
    }

    /// Writes what could not be written when it came.
    pub(crate) fn settle(&self, state: &mut State) {
        self.abandon_late(state);
        self.settle_gap(state);
        for _ in 0..state.owed.len() {
            let Some(draft) = state.owed.pop_front() else { return };
            if self.append_outcome(state, draft).is_err() {
                return;
            }
        }
    }

    /// The names that a query asks for, as hashes.
    pub(crate) fn wanted(&self, query: &Query) -> WantedLabel {
        let hash = |name: &str| self.hasher.hash_one(name);
        WantedLabel {
            org: query.org.as_ref().map(|org| hash(org.as_str())),
            tool: query.tool.as_deref().map(hash),
            caller: query.caller.as_deref().map(hash),
        }
    }
}

/// An outcome that the ledger itself writes.
fn end(status: Status, code: Option<Code>, (at, took): (Wall, Duration)) -> End {
    let elapsed_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    End { at, status, code, elapsed_ms, bytes: 0, result: None, cage: None }
}

fn wait_in(state: &mut State) -> Confirmed {
    let (waiter, confirmed) = oneshot::channel();
    state.waiters.push(waiter);
    confirmed
}
