//! Which waits there are, whose, and when each is due: in memory, made again at every start.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tool::outcome::{Answer, Failure};
use tool::{CallId, Caller, CallerType, Code, Digest, Map, Mono, Org, ToolKey};

use super::Patience;
use super::kept::Kept;

/// The time in which asks are counted.
const MINUTE: Duration = Duration::from_mins(1);
/// Keys whose asks are remembered.
const KEYS: usize = 10_000;

/// What those who wait see: at its end, what came of it.
pub(crate) type Told = Option<Arc<Answer>>;

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    state: Mutex<Inner>,
}

/// How many there may be.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds {
    pending: usize,
    per_minute: usize,
    total: usize,
    bytes: usize,
}

impl Bounds {
    /// The part of the total and of the bytes that one root key may take.
    const SHARE: usize = 4;

    /// Calls and bytes of one root key. As many calls as may wait are kept in any case.
    fn of_key(self) -> (usize, usize) {
        let calls = (self.total / Self::SHARE).max(self.pending).min(self.total);
        (calls, self.bytes / Self::SHARE)
    }
}

impl From<&Patience> for Bounds {
    fn from(patience: &Patience) -> Self {
        let Patience { pending, per_minute, total, bytes, .. } = *patience;
        Self { pending, per_minute, total, bytes }
    }
}

#[derive(Debug, Default)]
struct Inner {
    bounds: Bounds,
    slots: Map<CallId, Slot>,
    /// What is to be done next, and when.
    due: BTreeSet<(Mono, CallId)>,
    /// By root key, so that delegating keys gives nobody more.
    keys: Map<Arc<str>, Counts>,
    bytes: usize,
}

/// What one root key has.
#[derive(Debug, Default)]
struct Counts {
    pending: usize,
    asks: VecDeque<Mono>,
    /// Calls that are kept, decided and ended ones among them, and the bytes of their arguments.
    slots: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Slot {
    whose: Arc<str>,
    /// The root key that it counts for.
    root: Arc<str>,
    org: Org,
    what: (ToolKey, CallerType),
    bytes: usize,
    due: Mono,
    phase: Phase,
    /// Tool and arguments, until somebody has fetched its answer.
    mark: Option<Digest>,
    watched: Option<watch::Sender<Told>>,
}

/// How far a wait came, for those who count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nobody decided yet.
    Pending,
    /// It was approved; `true` where this process is about to run it or does.
    Approved(bool),
    /// Over: it is kept for its caller.
    Ended,
}

/// A new line of the index.
#[derive(Debug)]
pub(crate) struct New<'a> {
    pub(crate) id: CallId,
    pub(crate) caller: &'a Caller,
    /// The tool, and how it is called.
    pub(crate) what: (&'a ToolKey, CallerType),
    pub(crate) bytes: usize,
    pub(crate) due: Mono,
    pub(crate) phase: Phase,
    /// Tool and arguments.
    pub(crate) mark: Digest,
}

impl<'a> New<'a> {
    pub(crate) fn of(kept: &'a Kept, phase: Phase, due: Mono) -> Self {
        Self {
            id: kept.id,
            caller: &kept.caller,
            what: (&kept.tool, kept.caller_type),
            bytes: kept.args.bytes().len(),
            due,
            phase,
            mark: kept.mark(),
        }
    }
}

impl Index {
    pub(crate) fn new(patience: &Patience) -> Self {
        let index = Self { state: Mutex::default() };
        index.bound(patience);
        index
    }

    /// From here on so many are taken.
    pub(crate) fn bound(&self, patience: &Patience) {
        self.lock().bounds = patience.into();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a call that is to be held, or says why there are too many.
    pub(crate) fn admit(&self, new: &New<'_>, now: Mono) -> Result<(), Failure> {
        let mut inner = self.lock();
        let Bounds { pending, per_minute, total, bytes } = inner.bounds;
        if inner.slots.len() >= total || inner.bytes + new.bytes > bytes {
            let told = "too many calls wait for an approval; have some decided, and try again";
            return Err(Failure::new(Code::Busy, told));
        }
        let (most, most_bytes) = inner.bounds.of_key();
        let counts = inner.counts(new.caller);
        if counts.slots >= most || counts.bytes + new.bytes > most_bytes {
            let told =
                "this key has had too many calls held, and they are kept for a while; try later";
            return Err(Failure::new(Code::RateLimited, told));
        }
        while counts.asks.front().is_some_and(|at| now.since(*at) >= MINUTE) {
            counts.asks.pop_front();
        }
        if counts.pending >= pending {
            let told = format!(
                "{} calls of this key wait for an approval, which is its limit; have them decided",
                counts.pending
            );
            return Err(Failure::new(Code::RateLimited, told));
        }
        if counts.asks.len() >= per_minute {
            let told = format!(
                "this key asked for {} approvals within a minute, which is its limit; try later",
                counts.asks.len()
            );
            return Err(Failure::new(Code::RateLimited, told));
        }
        counts.asks.push_back(now);
        inner.insert(new);
        Ok(())
    }

    /// Takes what was held when the process before ended.
    pub(crate) fn restore(&self, new: &New<'_>) {
        self.lock().insert(new);
    }

    /// Moves a wait on; nothing where it is not known.
    pub(crate) fn move_to(&self, id: CallId, phase: Phase, due: Option<Mono>) {
        let mut inner = self.lock();
        let Some(slot) = inner.slots.get_mut(&id) else { return };
        let (before, root) = (slot.phase, Arc::clone(&slot.root));
        let old = slot.due;
        slot.phase = phase;
        slot.due = due.unwrap_or(old);
        let new = slot.due;
        inner.due.remove(&(old, id));
        inner.due.insert((new, id));
        if before == Phase::Pending && phase != Phase::Pending {
            inner.decided(&root);
        }
    }

    pub(crate) fn phase(&self, id: CallId) -> Option<Phase> {
        self.lock().slots.get(&id).map(|slot| slot.phase)
    }

    /// Whether its time is over by the clock that does not jump.
    pub(crate) fn is_over(&self, id: CallId, now: Mono) -> bool {
        let inner = self.lock();
        inner.slots.get(&id).is_some_and(|slot| slot.phase != Phase::Ended && slot.due <= now)
    }

    pub(crate) fn forget(&self, id: CallId) {
        let mut inner = self.lock();
        let Some(slot) = inner.slots.remove(&id) else { return };
        inner.due.remove(&(slot.due, id));
        inner.bytes = inner.bytes.saturating_sub(slot.bytes);
        if slot.phase == Phase::Pending {
            inner.decided(&slot.root);
        }
        if let Some(counts) = inner.keys.get_mut(&slot.root) {
            counts.slots = counts.slots.saturating_sub(1);
            counts.bytes = counts.bytes.saturating_sub(slot.bytes);
        }
    }

    /// The next that is due.
    pub(crate) fn next(&self) -> Option<(Mono, CallId)> {
        self.lock().due.first().copied()
    }

    /// Hears of what becomes of it.
    pub(crate) fn watch(&self, id: CallId) -> Option<watch::Receiver<Told>> {
        let mut inner = self.lock();
        let slot = inner.slots.get_mut(&id)?;
        Some(slot.watched.get_or_insert_with(|| watch::Sender::new(None)).subscribe())
    }

    pub(crate) fn tell(&self, id: CallId, answer: Option<&Answer>) {
        let mut inner = self.lock();
        let Some(slot) = inner.slots.get_mut(&id) else { return };
        let Some(watched) = &slot.watched else { return };
        watched.send_replace(answer.cloned().map(Arc::new));
        // Who waits has it by now, and a large answer is not kept for nobody.
        if answer.is_some() || watched.receiver_count() == 0 {
            slot.watched = None;
        }
    }

    /// Ids of this caller's own, and of those that it sees beside them, the newest first; `pending` alone or
    /// all.
    pub(crate) fn list(
        &self,
        (caller, sees): (&Caller, impl Fn(&Org, &(ToolKey, CallerType)) -> bool),
        pending: bool,
        before: Option<CallId>,
    ) -> Vec<CallId> {
        let whose = whose(caller);
        let inner = self.lock();
        let mut ids: Vec<_> = inner
            .slots
            .iter()
            .filter(|(id, slot)| {
                (!pending || slot.phase == Phase::Pending)
                    && before.is_none_or(|before| **id < before)
                    && (*slot.whose == *whose || sees(&slot.org, &slot.what))
            })
            .map(|(id, _)| *id)
            .collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids
    }

    /// Whether a call of this caller is there whose answer nobody has fetched.
    pub(crate) fn has_unfetched(&self, caller: &Caller) -> bool {
        let inner = self.lock();
        if inner.slots.is_empty() {
            return false;
        }
        let whose = whose(caller);
        inner.keys.contains_key(root(caller).as_str())
            && inner.slots.values().any(|slot| slot.mark.is_some() && *slot.whose == *whose)
    }

    /// The oldest of them that is the same call.
    pub(crate) fn unfetched(&self, caller: &Caller, mark: Digest) -> Option<CallId> {
        let whose = whose(caller);
        let inner = self.lock();
        let same = |slot: &Slot| slot.mark == Some(mark) && *slot.whose == *whose;
        inner.slots.iter().filter(|(_, slot)| same(slot)).map(|(id, _)| *id).min()
    }

    /// Its caller has its answer.
    pub(crate) fn fetched(&self, id: CallId) {
        if let Some(slot) = self.lock().slots.get_mut(&id) {
            slot.mark = None;
        }
    }

    /// How many are not decided.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().slots.values().filter(|slot| slot.phase == Phase::Pending).count()
    }
}

impl Inner {
    fn counts(&mut self, caller: &Caller) -> &mut Counts {
        if self.keys.len() >= KEYS {
            self.keys.retain(|_, counts| counts.slots > 0);
        }
        self.keys.entry(root(caller).into()).or_default()
    }

    fn insert(&mut self, new: &New<'_>) {
        let (whose, root): (Arc<str>, Arc<str>) =
            (whose(new.caller).into(), root(new.caller).into());
        let counts = self.keys.entry(Arc::clone(&root)).or_default();
        counts.pending += usize::from(new.phase == Phase::Pending);
        counts.slots += 1;
        counts.bytes += new.bytes;
        self.bytes += new.bytes;
        self.due.insert((new.due, new.id));
        let slot = Slot {
            whose,
            root,
            org: new.caller.org.clone(),
            what: (new.what.0.clone(), new.what.1),
            bytes: new.bytes,
            due: new.due,
            phase: new.phase,
            // Whether the answer of one that had ended before this process was fetched, nobody knows.
            mark: (new.phase != Phase::Ended).then_some(new.mark),
            watched: None,
        };
        self.slots.insert(new.id, slot);
    }

    fn decided(&mut self, root: &str) {
        if let Some(counts) = self.keys.get_mut(root) {
            counts.pending = counts.pending.saturating_sub(1);
        }
    }
}

/// A caller as one word. Keys have no `/`.
fn whose(caller: &Caller) -> String {
    format!("{}/{}/{}", caller.org.as_str(), caller.key, caller.subject)
}

/// The root key of a caller as one word.
fn root(caller: &Caller) -> String {
    format!("{}/{}", caller.org.as_str(), caller.root_key())
}
