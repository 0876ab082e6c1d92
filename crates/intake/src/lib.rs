//! Supervises sources and publishes the catalog of their offers.
//!
//! Each source is listed by its own task, so that one that hangs, misbehaves or crashes delays no
//! other. Its last listing stays while it is unavailable. The catalog is swapped atomically with
//! its policy. This crate knows no kind of source and decides nothing about callers.

mod failure_log;
mod keeper;
mod pins;
mod supervise;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use catalog::{Catalog, Current, Pin, Shelf, State};
use futures_util::future::join_all;
use policy::Policy;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tool::source::Probe;
use tool::{Caller, Clock, Digest, Durability, Mono, Org, Source, SourceName, ToolName, Trust};

pub use pins::{DecideError, Decision, Pinned, Pins};

use keeper::{Keeper, Prepared, Wires};
use supervise::Supervised;

/// A source with the operator's settings.
#[derive(Debug, Clone)]
pub struct Sourced {
    /// The source to supervise.
    pub source: Arc<dyn Source>,
    /// `tool_file`, `module`, `mcp`, `builtin`, …
    pub kind: &'static str,
    /// Trust in the source.
    pub trust: Trust,
    /// Durability of its call records; `None` if their effects decide.
    pub durability: Option<Durability>,
    /// Polling interval; `None` for sources that report changes.
    pub poll: Option<Duration>,
    /// Fingerprint of its configuration; a source with an unchanged fingerprint keeps running.
    pub fingerprint: u64,
}

/// Timeouts of the supervision.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Maximum duration of a listing.
    pub list: Duration,
    /// Delays after consecutive failures; the last one repeats.
    pub retry: [Duration; 4],
    /// Maximum duration of closing a source.
    pub close: Duration,
}

impl Default for Times {
    /// Returns 35 s for a listing; retries after 5, 10, 20 and 30 s (as the module API does), then
    /// every 30 s; 10 s to close.
    fn default() -> Self {
        let retry = [5, 10, 20, 30].map(Duration::from_secs);
        Self { list: Duration::from_secs(35), retry, close: Duration::from_secs(10) }
    }
}

/// Supervises sources and keeps the catalog up to date.
#[derive(Debug)]
pub struct Intake {
    current: Arc<Current<Policy>>,
    keeper: Arc<Keeper>,
    number: watch::Receiver<u64>,
    tasks: TaskTracker,
    times: Times,
    clock: Arc<dyn Clock>,
    woken: Mutex<Option<Mono>>,
}

/// Minimum interval between attempts to refresh unlisted sources.
const WAKE: Duration = Duration::from_secs(5);
/// Maximum time that a new configuration waits for locally listed sources.
const READY: Duration = Duration::from_secs(5);

impl Intake {
    /// Starts listing `sources` and returns immediately. Their order is that of the configuration,
    /// which decides name conflicts. No pins apply: see [`Intake::pinned`].
    pub fn start(org: Org, sources: Vec<Sourced>, times: Times, clock: Arc<dyn Clock>) -> Self {
        Self::begun((org, None), sources, times, clock)
    }

    /// Starts listing `sources` with pins, which decide which definitions are callable.
    pub fn pinned(
        (org, pins): (Org, Arc<Pins>),
        sources: Vec<Sourced>,
        times: Times,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::begun((org, Some(pins)), sources, times, clock)
    }

    fn begun(
        (org, pins): (Org, Option<Arc<Pins>>),
        sources: Vec<Sourced>,
        times: Times,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let current = Arc::new(Current::new(Catalog::default(), Policy::default()));
        let (numbers, number) = watch::channel(0);
        let keeper = Arc::new(Keeper::new(org, pins, Arc::clone(&current), numbers));
        let (tasks, woken) = (TaskTracker::new(), Mutex::default());
        let intake = Self { current, keeper, number, tasks, times, clock, woken };
        intake.set(sources);
        intake
    }

    /// Returns the active catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.current.catalog()
    }

    /// Returns the active policy.
    pub fn rules(&self) -> Policy {
        self.current.rules()
    }

    /// Returns the holder of the active snapshot, for readers on every call.
    pub fn current(&self) -> Arc<Current<Policy>> {
        Arc::clone(&self.current)
    }

    /// Subscribes to versions of the catalog and the policy.
    pub fn numbers(&self) -> watch::Receiver<u64> {
        self.number.clone()
    }

    /// Applies a new configuration: unchanged sources keep running, removed ones are closed, new
    /// ones start.
    pub fn set(&self, sources: Vec<Sourced>) {
        self.begin(self.keeper.set(sources, HashMap::new(), None));
    }

    /// Applies a new configuration and its policy in one step: sources are removed with the old
    /// policy, and added with the new one.
    pub fn set_with(&self, sources: Vec<Sourced>, rules: &Policy) {
        self.begin(self.keeper.set(sources, HashMap::new(), Some(rules)));
    }

    /// Applies a new configuration and policy after replaced sources that are [listed
    /// locally](Source::lists_at_once) have been listed; until then the old ones serve under the
    /// old policy. A source that is not listed within five seconds replaces the old one without
    /// tools.
    pub async fn replace_with(&self, sources: Vec<Sourced>, rules: &Policy) {
        let replaces = |new: &&Sourced| new.source.lists_at_once() && self.keeper.replaces(new);
        let prepared = sources.iter().filter(replaces).map(|new| self.prepared(new.clone()));
        let (mut prepared, mut tasks) = (join_all(prepared).await, Vec::new());
        let prepared = prepared.drain(..).map(|(prepared, supervised)| {
            let name = supervised.sourced.source.name().clone();
            tasks.push(supervised);
            (name, prepared)
        });
        let new = self.keeper.set(sources, prepared.collect(), Some(rules));
        for supervised in tasks {
            drop(self.tasks.spawn(supervised.run()));
        }
        self.begin(new);
    }

    /// Prepares a source with its first listing if possible, and its task.
    async fn prepared(&self, sourced: Sourced) -> (Prepared, Supervised) {
        let (mut prepared, wires) = Prepared::new(&sourced);
        let mut supervised = self.supervised(sourced, wires);
        if let Ok(Some(shelf)) = timeout(READY, supervised.prepare()).await {
            prepared.has_listed(shelf);
        }
        (prepared, supervised)
    }

    fn supervised(&self, sourced: Sourced, wires: Wires) -> Supervised {
        let (keeper, times) = (Arc::clone(&self.keeper), self.times);
        let (clock, tasks) = (Arc::clone(&self.clock), self.tasks.clone());
        Supervised { sourced, wires, keeper, times, clock, tasks, ready: None }
    }

    /// Sets the policy; the sources stay.
    pub fn rule(&self, rules: &Policy) {
        self.keeper.rule(rules);
    }

    /// Adds a source after the others, or replaces one of the same name.
    pub fn add(&self, source: Option<Sourced>) {
        self.begin(source.and_then(|source| self.keeper.add(source)));
    }

    /// Removes a source and its offers; its child processes end a little later.
    pub fn remove(&self, name: &SourceName) {
        self.keeper.remove(name);
    }

    fn begin(&self, new: impl IntoIterator<Item = (Sourced, Wires)>) {
        for (sourced, wires) in new {
            drop(self.tasks.spawn(self.supervised(sourced, wires).run()));
        }
    }

    /// Refreshes all sources or one, and waits until that is done, at most as long as one listing
    /// may take.
    ///
    /// # Errors
    /// The name, if there is no such source.
    pub async fn refresh(&self, only: Option<&SourceName>) -> Result<(), SourceName> {
        let asked = self.keeper.ask(only);
        if let Some(name) = only.filter(|_| asked.is_empty()) {
            return Err(name.clone());
        }
        let listed = asked.into_iter().map(|(mut done, number)| async move {
            // A source that was removed meanwhile needs no waiting.
            drop(done.wait_for(|done| *done >= number).await.map(|done| *done));
        });
        // A source with a slower start is listed once it is up.
        drop(timeout(self.times.list, join_all(listed)).await);
        Ok(())
    }

    /// Refreshes all sources of a kind, and waits until that is done, at most for `limit`.
    pub async fn refresh_kind(&self, kind: &str, limit: Duration) {
        let names = self.of_kind(kind, |_| true);
        let all = names.iter().map(|name| self.refresh(Some(name)));
        drop(timeout(limit, join_all(all)).await);
    }

    /// Refreshes all sources of a kind if none of them was ever listed, and nobody tried within the
    /// last seconds, so that frequent listings do no harm.
    pub async fn wake(&self, kind: &str, limit: Duration) {
        let known = |shelf: &Shelf| matches!(shelf.state, State::Ok | State::Stale);
        if !self.of_kind(kind, known).is_empty() || self.of_kind(kind, |_| true).is_empty() {
            return;
        }
        let now = self.clock.mono();
        let due = {
            let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
            let due = woken.is_none_or(|woken| now.since(woken) >= WAKE);
            *woken = if due { Some(now) } else { *woken };
            due
        };
        if due {
            self.refresh_kind(kind, limit).await;
        }
    }

    fn of_kind(&self, kind: &str, fits: impl Fn(&Shelf) -> bool) -> Vec<SourceName> {
        let catalog = self.catalog();
        let fitting = catalog.shelves().filter(|shelf| shelf.kind == kind && fits(shelf));
        fitting.map(|shelf| shelf.source.clone()).collect()
    }

    /// Returns the pin registry, if there is one.
    pub fn pins(&self) -> Option<&Arc<Pins>> {
        self.keeper.pins.as_ref()
    }

    /// Returns the number of a source's tools that need a review.
    pub fn waiting(&self, source: &SourceName) -> usize {
        self.pins().map_or(0, |pins| pins.waiting(source))
    }

    /// Decides on a reviewed definition; the catalog has the result when this resolves.
    ///
    /// # Errors
    /// As [`Pins::decide`].
    pub async fn decide(
        &self,
        at: (&SourceName, &ToolName),
        what: (Decision, Digest),
        who: (&Caller, Option<String>),
    ) -> Result<Pin, DecideError> {
        let missing = || DecideError::Missing { source_name: at.0.clone(), tool: at.1.clone() };
        let pin = self.pins().ok_or_else(missing)?.decide(at, what, who).await?;
        let (keeper, source) = (Arc::clone(&self.keeper), at.0.clone());
        // A complete catalog is merged: not on a thread that others wait for.
        drop(tokio::task::spawn_blocking(move || keeper.divide_anew(&source)).await);
        Ok(pin)
    }

    /// Probes the address and health of a source; `None` for an unknown source, or one without an
    /// address.
    pub async fn probe(&self, name: &SourceName) -> Option<Probe> {
        let source = self.keeper.source(name)?;
        source.probe().await
    }

    /// Returns a running source.
    pub fn source(&self, name: &SourceName) -> Option<Arc<dyn Source>> {
        self.keeper.source(name)
    }

    /// Resolves when every source was listed or failed once.
    pub async fn settled(&self) {
        for mut done in self.keeper.listed() {
            drop(done.wait_for(|done| *done > 0).await.map(|done| *done));
        }
    }

    /// Closes all sources; resolves when their child processes have ended.
    pub async fn close(&self) {
        self.set(Vec::new());
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests;
