//! Which sources there are, in which order, and the catalog their shelves make.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use catalog::{Current, Shelf, State};
use policy::Policy;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tool::{Org, Source, SourceName};

use crate::{Pins, Sourced};

/// How long shelves are gathered while others are still to come for the first time, or where the last catalog is
/// no older: a catalog of many sources would be merged once for each of them.
const GATHER: Duration = Duration::from_millis(20);

/// The number of the first listing that is asked for.
pub(crate) const FIRST: u64 = 1;

/// What a supervising task listens to and tells.
#[derive(Debug)]
pub(crate) struct Wires {
    /// Counts the listings asked for; closes when the source is taken away.
    pub(crate) asked: watch::Receiver<u64>,
    /// Counts the listings asked for that are done.
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
    /// When the catalog was swapped last.
    published: Option<Instant>,
}

/// A source that is supervised, and not in the catalog yet.
#[derive(Debug)]
pub(crate) struct Prepared(Running);

impl Prepared {
    pub(crate) fn new(sourced: &Sourced) -> (Self, Wires) {
        let (running, wires) = begin(sourced);
        (Self(running), wires)
    }

    /// Gives it what it listed.
    pub(crate) fn has_listed(&mut self, shelf: Shelf) {
        self.0.shelf = Arc::new(shelf);
    }
}

impl Sources {
    /// Whether more than one shelf may come just now.
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

    /// Whether a source would take the place of one that is another.
    pub(crate) fn replaces(&self, sourced: &Sourced) -> bool {
        let sources = self.lock();
        let there = sources.running.get(sourced.source.name());
        there.is_some_and(|running| running.fingerprint != sourced.fingerprint)
    }

    /// Takes the new set; gives back those to start. Those that are `prepared` are started already. Dropping
    /// the `asked` sender of the others ends their tasks. Of two sources with one name the first is taken;
    /// configuration refuses that before. Rules that come with it are in force from the same moment.
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

    /// Adds one, unless it is there as it is; gives it back to be started.
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

    /// Takes one away; dropping its `asked` sender ends its task.
    pub(crate) fn remove(&self, name: &SourceName) {
        let mut sources = self.lock();
        if sources.running.remove(name).is_some() {
            sources.order.retain(|other| other != name);
            self.publish(&mut sources);
        }
    }

    /// Puts a shelf in its place, unless its source was taken away or started anew meanwhile. Resolves
    /// when the catalog has it: at once, or with the others that come just then. One that says the same as the
    /// last makes no catalog.
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

    /// The number of the catalog that does not have the shelf yet, where that is to be waited for.
    fn place(&self, mut shelf: Shelf, of: &watch::Sender<u64>) -> Option<u64> {
        let mut sources = self.lock();
        // Under the lock: a decision made meanwhile is not undone by a shelf that knew nothing of it.
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

    /// Asks the pins of a source again and swaps the catalog.
    pub(crate) fn divide_anew(&self, source: &SourceName) {
        let mut sources = self.lock();
        let Some(running) = sources.running.get_mut(source) else { return };
        let mut shelf = Shelf::clone(&running.shelf);
        self.divide(&mut shelf);
        running.shelf = Arc::new(shelf);
        self.publish(&mut sources);
    }

    /// Takes new rules; the catalog stays.
    pub(crate) fn rule(&self, rules: &Policy) {
        // Under the lock, so that who hears of a number can look for it.
        let _sources = self.lock();
        self.numbers.send_replace(self.current.swap(None, Some(rules)));
    }

    /// The number of the catalog now.
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

    /// Asks one source, or all, for a listing; gives what to wait for.
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

/// The first listing is asked for from the beginning.
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
