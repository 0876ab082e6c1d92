//! The in-memory index of approvals by id, key and due time; rebuilt at every start.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tool::outcome::{Answer, Failure};
use tool::{CallId, Caller, CallerType, Code, Digest, Map, Mono, Org, ToolKey};

use super::Patience;
use super::kept::Kept;

/// Time window in which requests are counted.
const MINUTE: Duration = Duration::from_mins(1);
/// Maximum number of keys whose requests are tracked.
const KEYS: usize = 10_000;

/// Final response, as waiters see it.
pub(crate) type Told = Option<Arc<Answer>>;

/// Index of all approvals.
#[derive(Debug)]
pub(crate) struct Index {
    state: Mutex<Inner>,
}

/// Limits of the index.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds {
    pending: usize,
    per_minute: usize,
    total: usize,
    bytes: usize,
}

impl Bounds {
    /// Divisor of the total count and size for the share of one root key.
    const SHARE: usize = 4;

    /// Returns the limits of one root key: at least as many calls as may be pending.
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
    /// Due times of the next actions.
    due: BTreeSet<(Mono, CallId)>,
    /// Counts by root key, so that delegating keys yields no additional quota.
    keys: Map<Arc<str>, Counts>,
    bytes: usize,
}

/// Counts of one root key.
#[derive(Debug, Default)]
struct Counts {
    pending: usize,
    asks: VecDeque<Mono>,
    /// Stored calls, including decided and completed ones, and the size of their arguments.
    slots: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Slot {
    whose: Arc<str>,
    /// Root key that it counts for.
    root: Arc<str>,
    org: Org,
    what: (ToolKey, CallerType),
    bytes: usize,
    due: Mono,
    phase: Phase,
    /// Fingerprint of tool and arguments, until the result was fetched.
    mark: Option<Digest>,
    watched: Option<watch::Sender<Told>>,
}

/// Phase of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nobody has decided yet.
    Pending,
    /// It was approved; `true` if this process runs it or is about to.
    Approved(bool),
    /// It has ended and is retained for its caller.
    Ended,
}

/// A new entry of the index.
#[derive(Debug)]
pub(crate) struct New<'a> {
    pub(crate) id: CallId,
    pub(crate) caller: &'a Caller,
    /// Tool, and how it is called.
    pub(crate) what: (&'a ToolKey, CallerType),
    pub(crate) bytes: usize,
    pub(crate) due: Mono,
    pub(crate) phase: Phase,
    /// Fingerprint of tool and arguments.
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

    /// Sets the limits for new entries.
    pub(crate) fn bound(&self, patience: &Patience) {
        self.lock().bounds = patience.into();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inserts a new call, or returns the limit that it exceeds.
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

    /// Restores a call that was pending before a restart.
    pub(crate) fn restore(&self, new: &New<'_>) {
        self.lock().insert(new);
    }

    /// Moves an approval to another phase; does nothing if it is unknown.
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

    /// Returns true if its time is over by the monotonic clock.
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

    /// Returns the next due entry.
    pub(crate) fn next(&self) -> Option<(Mono, CallId)> {
        self.lock().due.first().copied()
    }

    /// Subscribes to changes of an approval.
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
        // Waiters have it by now; a large response is not kept for nobody.
        if answer.is_some() || watched.receiver_count() == 0 {
            slot.watched = None;
        }
    }

    /// Lists the ids of this caller's own approvals and of those that it may see, newest first;
    /// pending ones or all.
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

    /// Returns true if this caller has a call whose result was not fetched.
    pub(crate) fn has_unfetched(&self, caller: &Caller) -> bool {
        let inner = self.lock();
        if inner.slots.is_empty() {
            return false;
        }
        let whose = whose(caller);
        inner.keys.contains_key(root(caller).as_str())
            && inner.slots.values().any(|slot| slot.mark.is_some() && *slot.whose == *whose)
    }

    /// Finds the oldest unfetched call with this fingerprint.
    pub(crate) fn unfetched(&self, caller: &Caller, mark: Digest) -> Option<CallId> {
        let whose = whose(caller);
        let inner = self.lock();
        let same = |slot: &Slot| slot.mark == Some(mark) && *slot.whose == *whose;
        inner.slots.iter().filter(|(_, slot)| same(slot)).map(|(id, _)| *id).min()
    }

    /// Marks the result of a call as fetched.
    pub(crate) fn fetched(&self, id: CallId) {
        if let Some(slot) = self.lock().slots.get_mut(&id) {
            slot.mark = None;
        }
    }

    /// Returns the number of pending approvals.
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
            // For a call that ended before a restart, nobody knows whether its result was fetched.
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

/// Returns a caller as one string. Key ids contain no `/`.
fn whose(caller: &Caller) -> String {
    format!("{}/{}/{}", caller.org.as_str(), caller.key, caller.subject)
}

/// Returns a caller's root key as one string.
fn root(caller: &Caller) -> String {
    format!("{}/{}", caller.org.as_str(), caller.root_key())
}
