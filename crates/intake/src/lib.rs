//! Sources to catalog.
//!
//! Each source is listed by a task of its own, so that one that hangs, lies, floods or dies delays
//! nobody. What it listed last is kept while it is away. The catalog is swapped whole, and with the rules
//! that belong to it. This crate knows no kind of source and decides nothing about callers.

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

/// A source as the operator configured it.
#[derive(Debug, Clone)]
pub struct Sourced {
    /// The source.
    pub source: Arc<dyn Source>,
    /// `tool_file`, `module`, `mcp`, `builtin`, …
    pub kind: &'static str,
    /// How far it is trusted.
    pub trust: Trust,
    /// How sure the records of its calls must be; `None` where their effects decide.
    pub durability: Option<Durability>,
    /// How often to list it although it says nothing; `None` for sources that tell.
    pub poll: Option<Duration>,
    /// Changes when its configuration does; a source whose fingerprint stays is left running.
    pub fingerprint: u64,
}

/// Times of the supervision.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The longest a listing may take.
    pub list: Duration,
    /// Waits after failures, one after the other; the last one repeats.
    pub retry: [Duration; 4],
    /// The longest a source may take to close.
    pub close: Duration,
}

impl Default for Times {
    /// 35 s for a listing; tries again after 5, 10, 20 and 30 s (spec 0), then every 30 s; 10 s to close.
    fn default() -> Self {
        let retry = [5, 10, 20, 30].map(Duration::from_secs);
        Self { list: Duration::from_secs(35), retry, close: Duration::from_secs(10) }
    }
}

/// Keeps the catalog up to date.
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

/// Between two tries to wake sources of which nothing is known.
const WAKE: Duration = Duration::from_secs(5);
/// The longest that a new configuration waits for the sources that list at once.
const READY: Duration = Duration::from_secs(5);

impl Intake {
    /// Starts listing `sources`; returns at once. Their order is that of the configuration, which
    /// settles who keeps a name.
    /// Nothing is held back: see [`Intake::pinned`].
    pub fn start(org: Org, sources: Vec<Sourced>, times: Times, clock: Arc<dyn Clock>) -> Self {
        Self::begun((org, None), sources, times, clock)
    }

    /// The same, with pins that say which definitions may be called.
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

    /// The catalog now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.current.catalog()
    }

    /// The rules now.
    pub fn rules(&self) -> Policy {
        self.current.rules()
    }

    /// Where catalog and rules are swapped, for those who read them at every call.
    pub fn current(&self) -> Arc<Current<Policy>> {
        Arc::clone(&self.current)
    }

    /// Changes with the catalog, and with the rules.
    pub fn numbers(&self) -> watch::Receiver<u64> {
        self.number.clone()
    }

    /// Takes a new configuration: sources that stayed as they were go on, the others are closed, the
    /// new ones start.
    pub fn set(&self, sources: Vec<Sourced>) {
        self.begin(self.keeper.set(sources, HashMap::new(), None));
    }

    /// The same, with the rules that belong to it, in one step: what goes is gone with the old rules, and
    /// what comes is there under the new ones.
    pub fn set_with(&self, sources: Vec<Sourced>, rules: &Policy) {
        self.begin(self.keeper.set(sources, HashMap::new(), Some(rules)));
    }

    /// The same, after those that [list at once](Source::lists_at_once) and take the place of others have been listed:
    /// until then the old ones serve, under the old rules. One that is not listed within five seconds, or not at all,
    /// takes the place of the old one without tools.
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

    /// A source that has been listed, where it could be, and what supervises it from there on.
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

    /// Takes new rules; the sources stay as they are.
    pub fn rule(&self, rules: &Policy) {
        self.keeper.rule(rules);
    }

    /// Adds a source behind the others, or puts it in the place of one with its name.
    pub fn add(&self, source: Option<Sourced>) {
        self.begin(source.and_then(|source| self.keeper.add(source)));
    }

    /// Takes a source away, with what it offers; its children are gone a little later.
    pub fn remove(&self, name: &SourceName) {
        self.keeper.remove(name);
    }

    fn begin(&self, new: impl IntoIterator<Item = (Sourced, Wires)>) {
        for (sourced, wires) in new {
            drop(self.tasks.spawn(self.supervised(sourced, wires).run()));
        }
    }

    /// Lists all sources anew, or one, and waits until that is done, or for as long as one listing takes.
    ///
    /// # Errors
    /// The name, where there is no such source.
    pub async fn refresh(&self, only: Option<&SourceName>) -> Result<(), SourceName> {
        let asked = self.keeper.ask(only);
        if let Some(name) = only.filter(|_| asked.is_empty()) {
            return Err(name.clone());
        }
        let listed = asked.into_iter().map(|(mut done, number)| async move {
            // A source that was taken away meanwhile has nothing left to wait for.
            drop(done.wait_for(|done| *done >= number).await.map(|done| *done));
        });
        // One whose start takes longer is listed once it is up.
        drop(timeout(self.times.list, join_all(listed)).await);
        Ok(())
    }

    /// Lists all sources of a kind anew, at once, and waits until that is done, as long as it may take.
    pub async fn refresh_kind(&self, kind: &str, limit: Duration) {
        let names = self.of_kind(kind, |_| true);
        let all = names.iter().map(|name| self.refresh(Some(name)));
        drop(timeout(limit, join_all(all)).await);
    }

    /// The same where nothing at all is known of any of them, and nobody tried within the last seconds:
    /// whoever lists first has them listed, and whoever lists often does no harm.
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

    /// The pins, where there are any.
    pub fn pins(&self) -> Option<&Arc<Pins>> {
        self.keeper.pins.as_ref()
    }

    /// How many tools of a source wait for a person.
    pub fn waiting(&self, source: &SourceName) -> usize {
        self.pins().map_or(0, |pins| pins.waiting(source))
    }

    /// Decides on a definition that was looked at; the catalog has it when this resolves.
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
        // A whole catalog is made: not on a thread that others wait for.
        drop(tokio::task::spawn_blocking(move || keeper.divide_anew(&source)).await);
        Ok(pin)
    }

    /// Asks a source where it is and whether it answers. Nothing of one that is not there, or that has no
    /// address.
    pub async fn probe(&self, name: &SourceName) -> Option<Probe> {
        let source = self.keeper.source(name)?;
        source.probe().await
    }

    /// A source that runs.
    pub fn source(&self, name: &SourceName) -> Option<Arc<dyn Source>> {
        self.keeper.source(name)
    }

    /// Resolves when every source was listed once, or failed once.
    pub async fn settled(&self) {
        for mut done in self.keeper.listed() {
            drop(done.wait_for(|done| *done > 0).await.map(|done| *done));
        }
    }

    /// Ends all sources; resolves when their children are gone.
    pub async fn close(&self) {
        self.set(Vec::new());
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests;
