//! Concurrency limits: in total, per source, per key, and per key and source. Keys count by the
//! root of their delegation chain, so that delegating a key yields no additional quota. A call over
//! a limit is refused at once; there is no queue.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use option_types::Bounds;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tool::outcome::Failure;
use tool::{Code, Map};

/// Number of keys and sources that are tracked before idle ones are removed.
const REMEMBERED: usize = 4_096;
/// Number of sources that are tracked per key before idle ones are removed.
const OF_KEY: usize = 64;

#[derive(Debug)]
pub(crate) struct Limits {
    bounds: Bounds,
    closed: AtomicBool,
    all: Gate,
    keys: Mutex<Map<String, OfKey>>,
    sources: Mutex<Map<String, Gate>>,
}

/// Counters of one root key.
#[derive(Debug, Default)]
struct OfKey {
    all: Gate,
    sources: Map<String, Gate>,
}

/// Permit of a running call; releases the counters when it is dropped.
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

    /// Acquires a permit for a call of this root key on this source.
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

    /// Acquires the counters of a key, in total and on this source.
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

/// Counter of running calls.
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

/// Decrements the counter when it is dropped.
#[derive(Debug)]
struct Inside(Gate);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs `work` on the counter of this name. With `most` names, idle ones are removed first.
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
