//! How many calls at once: in all, of one key, on one source. Nobody waits: what is too much is told
//! at once, so that no queue can grow.

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
    /// Of one key.
    pub per_key: usize,
    /// On one source, so that one that hangs leaves room for the others.
    pub per_source: usize,
}

impl Default for Bounds {
    /// 4,096 in all, 1,024 of one key, 512 on one source.
    fn default() -> Self {
        Self { calls: 4_096, per_key: 1_024, per_source: 512 }
    }
}

/// Keys and sources remembered before those without calls are forgotten.
const REMEMBERED: usize = 4_096;

#[derive(Debug)]
pub(crate) struct Limits {
    bounds: Bounds,
    closed: AtomicBool,
    all: Gate,
    keys: Gates,
    sources: Gates,
}

/// Held while a call runs.
#[derive(Debug)]
pub(crate) struct Permit {
    _held: [Inside; 3],
    _running: TaskTrackerToken,
}

impl Limits {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let (keys, sources) = (Gates::new(bounds.per_key), Gates::new(bounds.per_source));
        Self { bounds, closed: AtomicBool::new(false), all: Gate::default(), keys, sources }
    }

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
        let key =
            self.keys.enter(key).ok_or_else(|| busy("this key".to_owned(), self.bounds.per_key))?;
        let of_source = self
            .sources
            .enter(source)
            .ok_or_else(|| busy(format!("source `{source}`"), self.bounds.per_source))?;
        Ok(Permit { _held: [all, key, of_source], _running: running })
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
}

/// Counted until it is dropped.
#[derive(Debug)]
struct Inside(Gate);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One gate per name.
#[derive(Debug)]
struct Gates {
    each: usize,
    gates: Mutex<Map<String, Gate>>,
}

impl Gates {
    fn new(each: usize) -> Self {
        Self { each, gates: Mutex::default() }
    }

    fn enter(&self, name: &str) -> Option<Inside> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(name) {
            return gate.enter(self.each);
        }
        if gates.len() >= REMEMBERED {
            gates.retain(|_, gate| gate.inside() > 0);
        }
        let gate = gates.entry(name.to_owned()).or_default();
        gate.enter(self.each)
    }
}
