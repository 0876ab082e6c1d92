//! Concurrency limits: in total, per source, per key, and per key and source. Keys count by the
//! root of their delegation chain, so that delegating a key yields no additional quota. A call over
//! a limit is refused at once; there is no queue.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use option_types::ConcurrencyLimits;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tool::call_outcome::CallFailure;
use tool::{ErrorCode, FastMap};

/// Number of keys and sources that are tracked before idle ones are removed.
const MAX_TRACKED_NAMES: usize = 4_096;
/// Number of sources that are tracked per key before idle ones are removed.
const MAX_TRACKED_SOURCES_PER_KEY: usize = 64;

#[derive(Debug)]
pub(crate) struct ConcurrencyLimiter {
    bounds: ConcurrencyLimits,
    is_closed: AtomicBool,
    total: CallCounter,
    keys: Mutex<FastMap<String, KeyCounters>>,
    sources: Mutex<FastMap<String, CallCounter>>,
}

/// Counters of one root key.
#[derive(Debug, Default)]
struct KeyCounters {
    total: CallCounter,
    sources: FastMap<String, CallCounter>,
}

/// Permit of a running call; releases the counters when it is dropped.
#[derive(Debug)]
pub(crate) struct CallPermit {
    _guards: [CounterGuard; 4],
    _running: TaskTrackerToken,
}

impl ConcurrencyLimiter {
    pub(crate) fn new(limits: ConcurrencyLimits) -> Self {
        let (keys, sources) = (Mutex::default(), Mutex::default());
        Self {
            bounds: limits,
            is_closed: AtomicBool::new(false),
            total: CallCounter::default(),
            keys,
            sources,
        }
    }

    /// Acquires a permit for a call of this root key on this source.
    pub(crate) fn try_acquire(
        &self,
        (key, source): (&str, &str),
        running: TaskTrackerToken,
    ) -> Result<CallPermit, CallFailure> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(CallFailure::new(
                ErrorCode::ShuttingDown,
                "the server is stopping; try another, or later",
            ));
        }
        let busy = |what: String, bound: usize| {
            let told =
                format!("{what} already has {bound} running calls, the maximum; try again soon");
            CallFailure::new(ErrorCode::Busy, told)
        };
        let all = self.total.try_enter(self.bounds.total);
        let all = all.ok_or_else(|| busy("the server".to_owned(), self.bounds.total))?;
        let (of_key, of_both) = self.acquire_key(key, source);
        let of_key = of_key.ok_or_else(|| busy("this key".to_owned(), self.bounds.per_key))?;
        let of_both = of_both.ok_or_else(|| {
            busy(format!("this key on source `{source}`"), self.bounds.per_key_and_source)
        })?;
        let of_source = self.acquire_source(source);
        let of_source =
            of_source.ok_or_else(|| busy(format!("source `{source}`"), self.bounds.per_source))?;
        Ok(CallPermit { _guards: [all, of_key, of_both, of_source], _running: running })
    }

    /// Acquires the counters of a key, in total and on this source.
    fn acquire_key(&self, key: &str, source: &str) -> (Option<CounterGuard>, Option<CounterGuard>) {
        let ConcurrencyLimits { per_key, per_key_and_source, .. } = self.bounds;
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let both = |of_key: &mut KeyCounters| {
            let inside = of_key.total.try_enter(per_key);
            let enter = |gate: &mut CallCounter| gate.try_enter(per_key_and_source);
            (
                inside,
                with_counter(
                    &mut of_key.sources,
                    source,
                    (MAX_TRACKED_SOURCES_PER_KEY, CallCounter::is_idle),
                    enter,
                ),
            )
        };
        with_counter(
            &mut keys,
            key,
            (MAX_TRACKED_NAMES, |it: &KeyCounters| it.total.is_idle()),
            both,
        )
    }

    fn acquire_source(&self, source: &str) -> Option<CounterGuard> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let enter = |gate: &mut CallCounter| gate.try_enter(self.bounds.per_source);
        with_counter(&mut sources, source, (MAX_TRACKED_NAMES, CallCounter::is_idle), enter)
    }

    pub(crate) fn running_count(&self) -> usize {
        self.total.count()
    }

    pub(crate) fn close_admission(&self) {
        self.is_closed.store(true, Ordering::Release);
    }
}

/// Counter of running calls.
#[derive(Debug, Clone, Default)]
struct CallCounter(Arc<AtomicUsize>);

impl CallCounter {
    fn try_enter(&self, bound: usize) -> Option<CounterGuard> {
        let more = |inside| (inside < bound).then(|| inside + 1);
        let entered = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
        entered.ok().map(|_| CounterGuard(self.clone()))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn is_idle(&self) -> bool {
        self.count() == 0
    }
}

/// Decrements the counter when it is dropped.
#[derive(Debug)]
struct CounterGuard(CallCounter);

impl Drop for CounterGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs `work` on the counter of this name. With `most` names, idle ones are removed first.
fn with_counter<T: Default, R>(
    all: &mut FastMap<String, T>,
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
