//! The configured sources in order, and the only writer of the merged catalog.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use catalog::{Current, Shelf, State};
use policy::Policy;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tool::{Org, Source, SourceName};

use crate::{Pins, Sourced};

/// Window in which listings are batched while other sources are still starting, or the last catalog
/// is as recent: otherwise a catalog of many sources would be merged once for each of them.
const GATHER: Duration = Duration::from_millis(20);

/// Number of the first refresh request.
pub(crate) const FIRST: u64 = 1;

/// Refresh channels of a source task.
#[derive(Debug)]
pub(crate) struct Wires {
    /// Number of requested refreshes; closes when the source is removed.
    pub(crate) asked: watch::Receiver<u64>,
    /// Number of completed refreshes.
    pub(crate) done: watch::Sender<u64>,
}

#[derive(Debug)]
struct Running {
    source: Arc<dyn Source>,
    fingerprint: u64,
    asked: watch::Sender<u64>,
    done: watch::Receiver<u64>,
    shelf: Arc<Shelf>,
}

#[derive(Debug, Default)]
struct Sources {
    order: Vec<SourceName>,
    running: HashMap<SourceName, Running>,
    /// Time at which the catalog was published last.
    published: Option<Instant>,
}

/// A source with a task that is not in the catalog yet.
#[derive(Debug)]
pub(crate) struct Prepared(Running);

impl Prepared {
    pub(crate) fn new(sourced: &Sourced) -> (Self, Wires) {
        let (running, wires) = begin(sourced);
        (Self(running), wires)
    }

    /// Sets its first listing.
    pub(crate) fn has_listed(&mut self, shelf: Shelf) {
        self.0.shelf = Arc::new(shelf);
    }
}

impl Sources {
    /// Returns true if further listings may arrive soon.
    fn gathers(&self) -> bool {
        self.published.is_some_and(|at| at.elapsed() < GATHER)
            || self.running.values().any(|running| running.shelf.state == State::Starting)
    }
}

/// The one writer of the catalog.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) org: Org,
    sources: Mutex<Sources>,
    current: Arc<Current<Policy>>,
    numbers: watch::Sender<u64>,
    pub(crate) pins: Option<Arc<Pins>>,
}

impl Keeper {
    pub(crate) fn new(
        org: Org,
        pins: Option<Arc<Pins>>,
        current: Arc<Current<Policy>>,
        numbers: watch::Sender<u64>,
    ) -> Self {
        Self { org, sources: Mutex::default(), current, numbers, pins }
    }

    fn lock(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a source would replace one with another configuration.
    pub(crate) fn replaces(&self, sourced: &Sourced) -> bool {
        let sources = self.lock();
        let there = sources.running.get(sourced.source.name());
        there.is_some_and(|running| running.fingerprint != sourced.fingerprint)
    }

    /// Sets the sources and returns those to start. The `prepared` ones have already started.
    /// Dropping the `asked` sender of removed sources ends their tasks. Of two sources with one
    /// name the first is used; configuration rejects that before. A given policy becomes active at
    /// the same moment.
    pub(crate) fn set(
        &self,
        wanted: Vec<Sourced>,
        mut prepared: HashMap<SourceName, Prepared>,
        rules: Option<&Policy>,
    ) -> Vec<(Sourced, Wires)> {
        let mut sources = self.lock();
        let mut old = std::mem::take(&mut *sources);
        let mut start = Vec::new();
        for sourced in wanted {
            let name = sourced.source.name().clone();
            if sources.running.contains_key(&name) {
                continue;
            }
            let kept = old.running.remove(&name).filter(|r| r.fingerprint == sourced.fingerprint);
            let running = match (kept, prepared.remove(&name)) {
                (Some(kept), _) => kept,
                (None, Some(Prepared(mut running))) => {
                    let mut shelf = Shelf::clone(&running.shelf);
                    self.divide(&mut shelf);
                    running.shelf = Arc::new(shelf);
                    running
                }
                (None, None) => {
                    let (running, wires) = begin(&sourced);
                    start.push((sourced, wires));
                    running
                }
            };
            sources.order.push(name.clone());
            sources.running.insert(name, running);
        }
        self.publish_with(&mut sources, rules);
        start
    }

    /// Adds a source unless it exists unchanged; returns it to be started.
    pub(crate) fn add(&self, sourced: Sourced) -> Option<(Sourced, Wires)> {
        let mut sources = self.lock();
        let name = sourced.source.name().clone();
        let there = sources.running.get(&name);
        if there.is_some_and(|running| running.fingerprint == sourced.fingerprint) {
            return None;
        }
        if there.is_none() {
            sources.order.push(name.clone());
        }
        let (running, wires) = begin(&sourced);
        sources.running.insert(name, running);
        self.publish(&mut sources);
        Some((sourced, wires))
    }

    /// Removes a source; dropping its `asked` sender ends its task.
    pub(crate) fn remove(&self, name: &SourceName) {
        let mut sources = self.lock();
        if sources.running.remove(name).is_some() {
            sources.order.retain(|other| other != name);
            self.publish(&mut sources);
        }
    }

    /// Publishes a source catalog, unless its source was removed or restarted meanwhile. Resolves
    /// when the catalog has it: immediately, or batched with others. An unchanged source catalog
    /// publishes nothing.
    pub(crate) async fn put(&self, shelf: Shelf, of: &watch::Sender<u64>) {
        let Some(before) = self.place(shelf, of) else { return };
        let mut numbers = self.numbers.subscribe();
        if timeout(GATHER, numbers.wait_for(|_| self.merged() > before)).await.is_err() {
            let mut sources = self.lock();
            if self.merged() == before {
                self.publish(&mut sources);
            }
        }
    }

    /// Replaces a source catalog; returns the version of the catalog without it if publication is
    /// to be awaited.
    fn place(&self, mut shelf: Shelf, of: &watch::Sender<u64>) -> Option<u64> {
        let mut sources = self.lock();
        // Runs under the lock, so that a concurrent pin decision is not undone by an older listing.
        self.divide(&mut shelf);
        let running = sources.running.get_mut(&shelf.source)?;
        if !running.done.same_channel(&of.subscribe()) {
            return None;
        }
        if running.shelf.is_same(&shelf) {
            return None;
        }
        running.shelf = Arc::new(shelf);
        if sources.gathers() {
            return Some(self.merged());
        }
        self.publish(&mut sources);
        None
    }

    fn divide(&self, shelf: &mut Shelf) {
        if let Some(pins) = &self.pins {
            pins.divide(shelf);
        }
    }

    /// Applies the pins of a source again and publishes the catalog.
    pub(crate) fn divide_anew(&self, source: &SourceName) {
        let mut sources = self.lock();
        let Some(running) = sources.running.get_mut(source) else { return };
        let mut shelf = Shelf::clone(&running.shelf);
        self.divide(&mut shelf);
        running.shelf = Arc::new(shelf);
        self.publish(&mut sources);
    }

    /// Sets the policy; the catalog stays.
    pub(crate) fn rule(&self, rules: &Policy) {
        // Runs under the lock, so that subscribers of a version find it.
        let _sources = self.lock();
        self.numbers.send_replace(self.current.swap(None, Some(rules)));
    }

    /// Returns the version of the current catalog.
    fn merged(&self) -> u64 {
        self.current.load().catalog.number
    }

    fn publish(&self, sources: &mut Sources) {
        self.publish_with(sources, None);
    }

    fn publish_with(&self, sources: &mut Sources, rules: Option<&Policy>) {
        sources.published = Some(Instant::now());
        let shelf = |name| sources.running.get(name).map(|running| Arc::clone(&running.shelf));
        let shelves = sources.order.iter().filter_map(shelf).collect();
        let before = self.current.catalog();
        let catalog = Arc::new(before.next(before.number + 1, shelves));
        self.numbers.send_replace(self.current.swap(Some(&catalog), rules));
    }

    /// Requests a refresh of one source or all; returns the channels and numbers to wait for.
    pub(crate) fn ask(&self, only: Option<&SourceName>) -> Vec<(watch::Receiver<u64>, u64)> {
        let sources = self.lock();
        let wanted = sources.running.iter().filter(|(name, _)| only.is_none_or(|o| o == *name));
        wanted
            .map(|(_, running)| {
                running.asked.send_modify(|asked| *asked += 1);
                (running.done.clone(), *running.asked.borrow())
            })
            .collect()
    }

    pub(crate) fn source(&self, name: &SourceName) -> Option<Arc<dyn Source>> {
        self.lock().running.get(name).map(|running| Arc::clone(&running.source))
    }

    pub(crate) fn listed(&self) -> Vec<watch::Receiver<u64>> {
        self.lock().running.values().map(|running| running.done.clone()).collect()
    }
}

/// Creates a source with the first refresh already requested.
fn begin(sourced: &Sourced) -> (Running, Wires) {
    let (asked, asked_seen) = watch::channel(FIRST);
    let (done, done_seen) = watch::channel(0);
    let shelf = Shelf::starting(sourced.source.name().clone(), sourced.kind, sourced.trust)
        .durable(sourced.durability);
    let fingerprint = sourced.fingerprint;
    let source = Arc::clone(&sourced.source);
    let running = Running { source, fingerprint, asked, done: done_seen, shelf: Arc::new(shelf) };
    (running, Wires { asked: asked_seen, done })
}
