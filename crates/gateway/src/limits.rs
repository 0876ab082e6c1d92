//! How many calls at once: in all, of one key, on one source. Nobody waits: what is too much is told
//! at once, so that no queue can grow.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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
    all: Arc<Semaphore>,
    keys: Gates,
    sources: Gates,
}

/// Held while a call runs.
#[derive(Debug)]
pub(crate) struct Permit {
    _held: [OwnedSemaphorePermit; 3],
    _running: TaskTrackerToken,
}

impl Limits {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let all = Arc::new(Semaphore::new(bounds.calls));
        let (keys, sources) = (Gates::new(bounds.per_key), Gates::new(bounds.per_source));
        Self { bounds, all, keys, sources }
    }

    pub(crate) fn enter(
        &self,
        (key, source): (&str, &str),
        running: TaskTrackerToken,
    ) -> Result<Permit, Failure> {
        if self.all.is_closed() {
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
        let all = Arc::clone(&self.all)
            .try_acquire_owned()
            .map_err(|_| busy("the server".to_owned(), self.bounds.calls))?;
        let key =
            self.keys.enter(key).ok_or_else(|| busy("this key".to_owned(), self.bounds.per_key))?;
        let of_source = self
            .sources
            .enter(source)
            .ok_or_else(|| busy(format!("source `{source}`"), self.bounds.per_source))?;
        Ok(Permit { _held: [all, key, of_source], _running: running })
    }

    pub(crate) fn running(&self) -> usize {
        self.bounds.calls.saturating_sub(self.all.available_permits())
    }

    pub(crate) fn close(&self) {
        self.all.close();
    }
}

/// One semaphore per name.
#[derive(Debug)]
struct Gates {
    each: usize,
    gates: Mutex<Map<String, Arc<Semaphore>>>,
}

impl Gates {
    fn new(each: usize) -> Self {
        Self { each, gates: Mutex::default() }
    }

    fn enter(&self, name: &str) -> Option<OwnedSemaphorePermit> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(name) {
            return Arc::clone(gate).try_acquire_owned().ok();
        }
        if gates.len() >= REMEMBERED {
            gates.retain(|_, gate| gate.available_permits() < self.each);
        }
        let gate = Arc::new(Semaphore::new(self.each));
        gates.insert(name.to_owned(), Arc::clone(&gate));
        gate.try_acquire_owned().ok()
    }
}
