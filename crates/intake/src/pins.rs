//! Which definitions may be called: asked before each swap of the catalog.
//!
//! What is decided is `catalog::pin`'s; here it is kept: in the store by compare-and-set, with a copy
//! in memory that the swap itself reads. What is not known to be active is not on a shelf: where the
//! store cannot be read or written, new definitions of sources without full trust wait.

mod book;
mod decide;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use catalog::pin::{self, Change, Sighting};
use catalog::{Entry, Pin, Shelf, State};
use futures_util::future::join_all;
use tool::ledger::{Event, Events};
use tool::{Clock, Digest, Org, Problem, SourceName, Store, StoreError, ToolName, Trust, Wall};

pub use decide::{DecideError, Decision, Pinned};

use book::{Book, SHARDS, shard_of};

/// So many changes of one kind in one listing are put on record one by one; more are one event.
const TOLD: usize = 50;
/// Another server, or a person, may write the same row; after so many tries it is left for later.
const TRIES: usize = 4;
/// The largest definition whose text is kept for comparing, in bytes.
const TEXT: usize = 64 << 10;

/// The pins of all sources.
#[derive(Debug)]
pub struct Pins {
    book: Book,
    events: Arc<dyn Events>,
    clock: Arc<dyn Clock>,
    org: Org,
}

/// What a look at a listing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    /// All is written down.
    Whole,
    /// The store did not do it: to be tried again.
    Again,
}

impl Pins {
    /// Kept in `store`, which should notice when somebody else writes there; changes are told to
    /// `events`.
    pub fn new(
        org: Org,
        store: Arc<dyn Store>,
        events: Arc<dyn Events>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { book: Book::new(org.clone(), store), events, clock, org }
    }

    /// Writes down what a listing shows that is new. Before [`Pins::divide`].
    pub(crate) async fn look(&self, shelf: &mut Shelf) -> Looked {
        let source = shelf.source.clone();
        let loads = join_all((0..SHARDS).map(|shard| self.book.load(&source, shard))).await;
        let mut trouble = loads.into_iter().find_map(Result::err);
        let first = trouble.is_none() && !self.book.knows(&source);
        let mut sights: BTreeMap<usize, Vec<(ToolName, Sighting)>> = BTreeMap::new();
        for entry in shelf.tools.iter().chain(&shelf.methods) {
            if !self.is_settled(&source, entry) {
                let sight = sighting(entry, shelf.trust, self.clock.wall());
                let name = entry.key.name.clone();
                sights.entry(shard_of(&name)).or_default().push((name, sight));
            }
        }
        let gone = if shelf.state == State::Ok { self.gone(shelf) } else { BTreeMap::new() };
        let mut changes = Vec::new();
        let shards: HashSet<_> = sights.keys().chain(gone.keys()).copied().collect();
        // All at once: rows that wait together are synced together.
        let writes = shards.into_iter().map(|shard| {
            let seen = sights.get(&shard).map_or(&[][..], Vec::as_slice);
            let lost = gone.get(&shard).map_or(&[][..], Vec::as_slice);
            let trust = shelf.trust;
            let step =
                move |pins: &mut BTreeMap<ToolName, Pin>| step(pins, (seen, lost), (trust, first));
            self.write(&source, shard, step)
        });
        for written in join_all(writes).await {
            match written {
                Ok(told) => changes.extend(told),
                Err(error) => trouble = Some(error),
            }
        }
        self.tell(&source, changes);
        let Some(error) = trouble else { return Looked::Whole };
        tracing::warn!(source = %source, %error, "pins cannot be kept");
        if shelf.trust != Trust::Full {
            let told = format!("pins cannot be kept, so that new tools are not active: {error}");
            let fix = "`toolkeep doctor` looks at the store; it is tried again by itself";
            shelf.problems.push(Problem::new(source.to_string(), told).fix(fix));
        }
        Looked::Again
    }

    /// Takes from the shelf what may not be called, and puts back what may. Never waits.
    pub(crate) fn divide(&self, shelf: &mut Shelf) {
        let (source, trust) = (shelf.source.clone(), shelf.trust);
        self.book.reading(&source, |pins| {
            shelf.divide(|entry| pin::callable(pins.get(&entry.key.name), trust, entry.definition));
        });
    }

    fn is_settled(&self, source: &SourceName, entry: &Entry) -> bool {
        let (name, definition) = (&entry.key.name, entry.definition);
        self.book.reading(source, |pins| pins.get(name).is_some_and(|pin| pin.is_at(definition)))
    }

    /// Active pins whose tools are not on the shelf.
    fn gone(&self, shelf: &Shelf) -> BTreeMap<usize, Vec<ToolName>> {
        let offered = shelf.tools.iter().chain(&shelf.methods);
        let offered: HashSet<&str> = offered.map(|entry| entry.key.name.as_str()).collect();
        let mut gone: BTreeMap<usize, Vec<ToolName>> = BTreeMap::new();
        for name in self.book.active(&shelf.source) {
            if !offered.contains(name.as_str()) {
                gone.entry(shard_of(&name)).or_default().push(name);
            }
        }
        gone
    }

    /// Changes one row: reads it, steps, writes, again where somebody else was faster.
    async fn write<T: Default>(
        &self,
        source: &SourceName,
        shard: usize,
        step: impl Fn(&mut BTreeMap<ToolName, Pin>) -> Option<T>,
    ) -> Result<T, StoreError> {
        let mut tries = 0;
        loop {
            let (version, mut pins) = self.book.read(source, shard).await?;
            let Some(told) = step(&mut pins) else {
                self.book.install(source, shard, (version, pins));
                return Ok(T::default());
            };
            match self.book.put(source, shard, (version, pins)).await {
                Ok(()) => return Ok(told),
                Err(StoreError::Conflict { .. }) if tries < TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts changes on record. They are made already, and only close: what cannot be written down is
    /// told in the log.
    fn tell(&self, source: &SourceName, changes: Vec<Told>) {
        let mut kinds: BTreeMap<Change, Vec<Told>> = BTreeMap::new();
        for told in changes {
            // A whole catalog that is new is no news one by one.
            kinds.entry(told.change).or_default().push(told);
        }
        for (change, all) in kinds {
            tracing::info!(source = %source, pins = all.len(), "{}", change.as_str());
            let many = all.len() > TOLD;
            let events =
                if many { Vec::new() } else { all.iter().map(|it| it.event(self)).collect() };
            let blank = Told { change, name: None, before: None, after: None };
            let summary = many
                .then(|| Event { note: Some(format!("{} tools", all.len())), ..blank.event(self) });
            for event in events.into_iter().chain(summary) {
                let event = Event { source: Some(source.clone()), ..event };
                if let Err(error) = self.events.note(&event) {
                    tracing::error!(%error, source = %source, "a pin's change is not on record");
                    return;
                }
            }
        }
    }
}

/// One change, for the record.
#[derive(Debug)]
struct Told {
    change: Change,
    name: Option<ToolName>,
    before: Option<Digest>,
    after: Option<Digest>,
}

impl Told {
    fn event(&self, pins: &Pins) -> Event {
        Event {
            at: pins.clock.wall(),
            org: pins.org.clone(),
            event: self.change.as_str().to_owned(),
            by: None,
            source: None,
            tool: self.name.clone(),
            before: self.before,
            after: self.after,
            note: None,
        }
    }
}

/// What was seen and lost, for one row; `None` where nothing of it changes.
fn step(
    pins: &mut BTreeMap<ToolName, Pin>,
    (seen, lost): (&[(ToolName, Sighting)], &[ToolName]),
    (trust, first): (Trust, bool),
) -> Option<Vec<Told>> {
    let (mut changed, mut told) = (false, Vec::new());
    for (name, sight) in seen {
        let old = pins.get(name);
        let before = old.and_then(|pin| pin.active.as_ref()).map(|active| active.digest);
        let Some((pin, change)) = pin::see(old, trust, sight.clone(), first) else { continue };
        let after = Some(sight.digest);
        // What is trusted in full is no news when it comes, only when it changes.
        let news = change.filter(|change| trust != Trust::Full || *change != Change::Activated);
        told.extend(news.map(|change| Told { change, name: Some(name.clone()), before, after }));
        pins.insert(name.clone(), pin);
        changed = true;
    }
    for name in lost {
        let Some(pin) = pins.get(name).and_then(pin::gone) else { continue };
        let before = pin.active.as_ref().map(|active| active.digest);
        let change = Change::Retired;
        told.push(Told { change, name: Some(name.clone()), before, after: None });
        pins.insert(name.clone(), pin);
        changed = true;
    }
    changed.then_some(told)
}

/// What is kept of an entry. Its text is kept where someone may have to compare it.
fn sighting(entry: &Entry, trust: Trust, at: Wall) -> Sighting {
    let received = &entry.tool.received;
    let kept = trust != Trust::Full && received.bytes().len() <= TEXT;
    Sighting {
        digest: entry.definition,
        at,
        received: kept.then(|| received.clone()),
        hidden: entry.hidden,
    }
}

#[cfg(test)]
mod tests;
