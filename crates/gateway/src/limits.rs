//! How many calls at once: in all, on one source, of one key, and of one key on one source. Keys count by the
//! root of their delegation chain, so that delegating keys gives nobody more. Nobody waits: what is too much is
//! refused at once, so that no queue can grow.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::task::task_tracker::TaskTrackerToken;
use tool::outcome::Failure;
use tool::{Code, Map};

/// Calls at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// In all.
    pub calls: usize,
    /// Of one root key.
    pub per_key: usize,
    /// On one source, so that one that hangs leaves room for the others.
    pub per_source: usize,
    /// Of one root key on one source, so that no key takes a source from the others.
    pub per_key_and_source: usize,
}

impl Default for Bounds {
    /// 4,096 in all, 1,024 of one key, 512 on one source, a quarter of them of one key.
    fn default() -> Self {
        let per_source = 512;
        let per_key_and_source = Self::share(per_source);
        Self { calls: 4_096, per_key: 1_024, per_source, per_key_and_source }
    }
}

impl Bounds {
    /// The share of one root key on a source that takes so many calls, where nothing else is said.
    pub const fn share(per_source: usize) -> usize {
        let quarter = per_source / 4;
        if quarter == 0 { 1 } else { quarter }
    }
}

/// Keys and sources remembered before those without calls are forgotten.
const REMEMBERED: usize = 4_096;
/// Sources remembered of one key before those without calls are forgotten.
const OF_KEY: usize = 64;

#[derive(Debug)]
pub(crate) struct Limits {
    bounds: Bounds,
    closed: AtomicBool,
    all: Gate,
    keys: Mutex<Map<String, OfKey>>,
    sources: Mutex<Map<String, Gate>>,
}

/// The calls of one root key.
#[derive(Debug, Default)]
struct OfKey {
    all: Gate,
    sources: Map<String, Gate>,
}

/// Held while a call runs.
#[derive(Debug)]
pub(crate) struct Permit {
    _held: [Inside; 4],
    _running: TaskTrackerToken,
}

impl Limits {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let (keys, sources) = (Mutex::default(), Mutex::default());
        Self { bounds, closed: AtomicBool::new(false), all: Gate::default(), keys, sources }
    }

    /// A place for a call of this root key on this source.
    pub(crate) fn enter(
        &self,
        (key, source): (&str, &str),
        running: TaskTrackerToken,
    ) -> Result<Permit, Failure> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Failure::new(
                Code::ShuttingDown,
                "the server is stopping; try another, or later",
            ));
        }
        let busy = |what: String, bound: usize| {
            let told =
                format!("{what} has {bound} calls running, which is its limit; try again soon");
            Failure::new(Code::Busy, told)
        };
        let all = self.all.enter(self.bounds.calls);
        let all = all.ok_or_else(|| busy("the server".to_owned(), self.bounds.calls))?;
        let (of_key, of_both) = self.of_key(key, source);
        let of_key = of_key.ok_or_else(|| busy("this key".to_owned(), self.bounds.per_key))?;
        let of_both = of_both.ok_or_else(|| {
            busy(format!("this key on source `{source}`"), self.bounds.per_key_and_source)
        })?;
        let of_source = self.of_source(source);
        let of_source =
            of_source.ok_or_else(|| busy(format!("source `{source}`"), self.bounds.per_source))?;
        Ok(Permit { _held: [all, of_key, of_both, of_source], _running: running })
    }

    /// Places among the calls of a key, and among those that it has on this source.
    fn of_key(&self, key: &str, source: &str) -> (Option<Inside>, Option<Inside>) {
        let Bounds { per_key, per_key_and_source, .. } = self.bounds;
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let both = |of_key: &mut OfKey| {
            let inside = of_key.all.enter(per_key);
            let enter = |gate: &mut Gate| gate.enter(per_key_and_source);
            (inside, with(&mut of_key.sources, source, (OF_KEY, Gate::rests), enter))
        };
        with(&mut keys, key, (REMEMBERED, |it: &OfKey| it.all.rests()), both)
    }

    fn of_source(&self, source: &str) -> Option<Inside> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let enter = |gate: &mut Gate| gate.enter(self.bounds.per_source);
        with(&mut sources, source, (REMEMBERED, Gate::rests), enter)
    }

    pub(crate) fn running(&self) -> usize {
        self.all.inside()
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// How many are inside.
#[derive(Debug, Clone, Default)]
struct Gate(Arc<AtomicUsize>);

impl Gate {
    fn enter(&self, bound: usize) -> Option<Inside> {
        let more = |inside| (inside < bound).then(|| inside + 1);
        let entered = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
        entered.ok().map(|_| Inside(self.clone()))
    }

    fn inside(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn rests(&self) -> bool {
        self.inside() == 0
    }
}

/// Counted until it is dropped.
#[derive(Debug)]
struct Inside(Gate);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Works with what is counted under this name. Where there are `most` names, those of which nothing runs are
/// forgotten.
fn with<T: Default, R>(
    all: &mut Map<String, T>,
    name: &str,
    (most, rests): (usize, impl Fn(&T) -> bool),
    work: impl FnOnce(&mut T) -> R,
) -> R {
    if let Some(one) = all.get_mut(name) {
        return work(one);
    }
    if all.len() >= most {
        all.retain(|_, one| !rests(one));
    }
    work(all.entry(name.to_owned()).or_default())
}
