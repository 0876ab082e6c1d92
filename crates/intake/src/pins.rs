//! The pins of all sources: updated from listings, and applied to source catalogs before
//! publication.
//!
//! Decisions are made in `catalog::pin` and stored here by compare-and-set, with an in-memory copy
//! for publication. Definitions not known to be active are not published: if the store is
//! unavailable, new definitions of sources without full trust wait.

mod book;
mod decide;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use catalog::pin::{self, Change, Sighting};
use catalog::{Pin, Shelf, State};
use futures_util::future::join_all;
use tool::ledger::{Event, Events};
use tool::{
    Clock, Digest, Json, Org, Problem, SourceName, Store, StoreError, ToolName, Trust, Wall,
};

pub use decide::{DecideError, Decision, Pinned};

use book::{Book, SHARDS, shard_of};

/// Maximum number of changes of one kind per listing that are recorded individually; more are one
/// event.
const TOLD: usize = 50;
/// Maximum number of attempts to write a row that others change concurrently.
const TRIES: usize = 4;
/// Maximum size in bytes of a definition whose text is stored for comparison.
const TEXT: usize = 64 << 10;

/// Registry of the pins of all sources.
#[derive(Debug)]
pub struct Pins {
    book: Book,
    events: Arc<dyn Events>,
    clock: Arc<dyn Clock>,
    org: Org,
}

/// Result of updating pins from a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    /// All changes are stored.
    Whole,
    /// The store failed; to be retried.
    Again,
}

impl Pins {
    /// Creates a registry on `store`, which should detect foreign writes; changes are recorded in
    /// `events`.
    pub fn new(
        org: Org,
        store: Arc<dyn Store>,
        events: Arc<dyn Events>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { book: Book::new(org.clone(), store), events, clock, org }
    }

    /// Updates pins from a listing. Call before [`Pins::divide`].
    pub(crate) async fn look(&self, shelf: &mut Shelf) -> Looked {
        let source = shelf.source.clone();
        let loads = join_all((0..SHARDS).map(|shard| self.book.load(&source, shard))).await;
        let mut trouble = loads.into_iter().find_map(Result::err);
        let first = trouble.is_none() && !self.book.knows(&source);
        let mut sights: BTreeMap<usize, Vec<(ToolName, Sighting)>> = BTreeMap::new();
        for definition in shelf.definitions() {
            let (name, digest, ..) = definition;
            if !self.is_settled(&source, name, digest) {
                let sight = sighting(definition, shelf.trust, self.clock.wall());
                sights.entry(shard_of(name)).or_default().push((name.clone(), sight));
            }
        }
        let gone = if shelf.state == State::Ok { self.gone(shelf) } else { BTreeMap::new() };
        let mut changes = Vec::new();
        let shards: HashSet<_> = sights.keys().chain(gone.keys()).copied().collect();
        // Writes run concurrently, so that rows are synced together.
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

    /// Applies the pins to a source catalog. Never blocks.
    pub(crate) fn divide(&self, shelf: &mut Shelf) {
        let (source, trust) = (shelf.source.clone(), shelf.trust);
        self.book.reading(&source, |pins| {
            shelf.divide(|name, definition| pin::callable(pins.get(name), trust, definition));
        });
    }

    fn is_settled(&self, source: &SourceName, name: &ToolName, definition: Digest) -> bool {
        self.book.reading(source, |pins| pins.get(name).is_some_and(|pin| pin.is_at(definition)))
    }

    /// Returns active pins whose tools are not offered.
    fn gone(&self, shelf: &Shelf) -> BTreeMap<usize, Vec<ToolName>> {
        let offered: HashSet<&str> = shelf.definitions().map(|(name, ..)| name.as_str()).collect();
        let mut gone: BTreeMap<usize, Vec<ToolName>> = BTreeMap::new();
        for name in self.book.active(&shelf.source) {
            if !offered.contains(name.as_str()) {
                gone.entry(shard_of(&name)).or_default().push(name);
            }
        }
        gone
    }

    /// Updates one row: reads, applies the step and writes, with retries on conflicts.
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

    /// Records changes. They are already applied and only restrict; a failure to record is logged.
    fn tell(&self, source: &SourceName, changes: Vec<Told>) {
        let mut kinds: BTreeMap<Change, Vec<Told>> = BTreeMap::new();
        for told in changes {
            // A completely new catalog is not reported tool by tool.
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

/// One pin change, for the audit log.
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

/// Applies observed and missing definitions to one row; `None` if nothing changes.
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
        // For fully trusted sources only changes are reported, not new tools.
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

/// Builds the stored observation. Its text is stored if somebody may have to compare it.
fn sighting(
    (_, digest, received, hidden): (&ToolName, Digest, &Json, bool),
    trust: Trust,
    at: Wall,
) -> Sighting {
    let kept = trust != Trust::Full && received.bytes().len() <= TEXT;
    Sighting { digest, at, received: kept.then(|| received.clone()), hidden }
}

#[cfg(test)]
mod tests;
