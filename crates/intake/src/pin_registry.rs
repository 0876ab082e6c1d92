//! The pins of all sources: updated from listings, and applied to source catalogs before
//! publication.
//!
//! Decisions are made in `catalog::pin` and stored here by compare-and-set, with an in-memory copy
//! for publication. Definitions not known to be active are not published: if the store is
//! unavailable, new definitions of sources without full trust wait.

mod pin_decisions;
mod pin_store;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use catalog::pin::{self, ObservedDefinition, PinChange};
use catalog::{Pin, SourceCatalog, SourceDefinition, SourceState};
use futures_util::future::join_all;
use tool::ledger::{AuditEventRecord, AuditLog};
use tool::{
    Clock, Digest, Org, Problem, SourceName, SourceTrust, Store, StoreError, ToolName, WallTime,
};

pub use pin_decisions::{DecidePinError, PinEntry, PinReview, PinVerdict};

use crate::ToolsetRegistry;
use crate::tool_switches::{DisabledNames, SwitchError, ToolSwitch, ToolSwitches};
use pin_store::{PinStore, ROWS_PER_SOURCE, shard_index};

/// Maximum number of changes of one kind per listing that are recorded individually; more are one
/// event.
const MAX_EVENTS_PER_CHANGE: usize = 50;
/// Maximum number of attempts to write a row that others change concurrently.
const MAX_WRITE_ATTEMPTS: usize = 4;
/// Maximum size in bytes of a definition whose text is stored for comparison.
const MAX_STORED_TEXT_BYTES: usize = 64 << 10;

/// Registry of the pins of all sources, and of what an operator has turned off.
#[derive(Debug)]
pub struct PinRegistry {
    pin_store: PinStore,
    switches: ToolSwitches,
    toolsets: ToolsetRegistry,
    audit_log: Arc<dyn AuditLog>,
    clock: Arc<dyn Clock>,
    org: Org,
}

/// Result of updating pins from a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PinUpdateStatus {
    /// All changes are stored.
    Complete,
    /// The store failed; to be retried.
    RetryNeeded,
}

impl PinRegistry {
    /// Creates a registry on `store`, which should detect foreign writes; changes are recorded in
    /// `events`.
    pub fn new(
        org: Org,
        store: Arc<dyn Store>,
        events: Arc<dyn AuditLog>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let switches = ToolSwitches::new(
            org.clone(),
            Arc::clone(&store),
            Arc::clone(&events),
            Arc::clone(&clock),
        );
        let toolsets = ToolsetRegistry::new(
            org.clone(),
            Arc::clone(&store),
            Arc::clone(&events),
            Arc::clone(&clock),
        );
        let pin_store = PinStore::new(org.clone(), store);
        Self { pin_store, switches, toolsets, audit_log: events, clock, org }
    }

    /// Reads what an operator has turned off, and the toolsets. To be called before sources are
    /// listed.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not respond, or the row of what is off is not readable.
    pub async fn load_switches(&self) -> Result<(), StoreError> {
        self.switches.load().await?;
        self.toolsets.load().await
    }

    /// Returns the registry of toolsets.
    pub fn toolsets(&self) -> &ToolsetRegistry {
        &self.toolsets
    }

    /// Returns the sources and tools that an operator has turned off.
    pub fn disabled_names(&self) -> Arc<DisabledNames> {
        self.switches.disabled_names()
    }

    /// Sets a switch in the store and in memory; the catalog has it after `apply_pins`.
    pub(crate) async fn set_switch(
        &self,
        switch: ToolSwitch<'_>,
    ) -> Result<Arc<DisabledNames>, SwitchError> {
        self.switches.set_switch(switch).await
    }

    /// Updates pins from a listing. Call before [`PinRegistry::apply_pins`].
    pub(crate) async fn update_from_listing(
        &self,
        source_catalog: &mut SourceCatalog,
    ) -> PinUpdateStatus {
        let source = source_catalog.source.clone();
        let loads = join_all(
            (0..ROWS_PER_SOURCE).map(|shard| self.pin_store.ensure_loaded(&source, shard)),
        )
        .await;
        let mut trouble = loads.into_iter().find_map(Result::err);
        let first = trouble.is_none() && !self.pin_store.has_pins(&source);
        let mut sights: BTreeMap<usize, Vec<(ToolName, ObservedDefinition)>> = BTreeMap::new();
        for definition in source_catalog.observed_definitions() {
            let name = definition.pin_name;
            if !self.is_active_definition(&source, name, definition.digest) {
                let sight =
                    observed_definition(definition, source_catalog.trust, self.clock.wall_now());
                sights.entry(shard_index(name)).or_default().push((name.clone(), sight));
            }
        }
        let gone = if source_catalog.state == SourceState::Current {
            self.missing_active_pins(source_catalog)
        } else {
            BTreeMap::new()
        };
        let mut changes = Vec::new();
        let shards: HashSet<_> = sights.keys().chain(gone.keys()).copied().collect();
        // Writes run concurrently, so that rows are synced together.
        let writes = shards.into_iter().map(|shard| {
            let observed = ListingObservations {
                definitions: sights.get(&shard).map_or(&[], Vec::as_slice),
                missing: gone.get(&shard).map_or(&[], Vec::as_slice),
                trust: source_catalog.trust,
                is_first_listing: first,
            };
            let step = move |pins: &mut BTreeMap<ToolName, Pin>| apply_observations(pins, observed);
            self.update_row(&source, shard, step)
        });
        for written in join_all(writes).await {
            match written {
                Ok(told) => changes.extend(told),
                Err(error) => trouble = Some(error),
            }
        }
        self.record_changes(&source, changes);
        let Some(error) = trouble else { return PinUpdateStatus::Complete };
        tracing::warn!(source = %source, %error, "cannot store pins");
        if source_catalog.trust != SourceTrust::Full {
            let told = format!("cannot store pins, so new tools are not active: {error}");
            let fix = "run `toolkeep doctor` to check the store; the write is retried \
                automatically";
            source_catalog.problems.push(Problem::new(source.to_string(), told).with_help(fix));
        }
        PinUpdateStatus::RetryNeeded
    }

    /// Applies the pins and the switches to a source catalog. Never blocks.
    pub(crate) fn apply_pins(&self, source_catalog: &mut SourceCatalog) {
        let (source, trust) = (source_catalog.source.clone(), source_catalog.trust);
        let disabled = self.switches.disabled_names();
        let is_source_off = disabled.sources.contains(&source);
        let tools_off = disabled.tools.get(&source);
        self.pin_store.with_pins(&source, |pins| {
            source_catalog.apply_pins(|name, definition| {
                let is_off = is_source_off || tools_off.is_some_and(|names| names.contains(name));
                !is_off && pin::is_callable(pins.get(name), trust, definition)
            });
        });
    }

    fn is_active_definition(
        &self,
        source: &SourceName,
        name: &ToolName,
        definition: Digest,
    ) -> bool {
        self.pin_store.with_pins(source, |pins| {
            pins.get(name).is_some_and(|pin| pin.is_active_definition(definition))
        })
    }

    /// Returns active pins whose tools are not offered.
    fn missing_active_pins(&self, shelf: &SourceCatalog) -> BTreeMap<usize, Vec<ToolName>> {
        let offered: HashSet<&str> =
            shelf.observed_definitions().map(|it| it.pin_name.as_str()).collect();
        let mut gone: BTreeMap<usize, Vec<ToolName>> = BTreeMap::new();
        for name in self.pin_store.active_names(&shelf.source) {
            if !offered.contains(name.as_str()) {
                gone.entry(shard_index(&name)).or_default().push(name);
            }
        }
        gone
    }

    /// Updates one row: reads, applies the step and writes, with retries on conflicts.
    async fn update_row<T: Default>(
        &self,
        source: &SourceName,
        shard: usize,
        step: impl Fn(&mut BTreeMap<ToolName, Pin>) -> Option<T>,
    ) -> Result<T, StoreError> {
        let mut tries = 0;
        loop {
            let (version, mut pins) = self.pin_store.read_row(source, shard).await?;
            let Some(told) = step(&mut pins) else {
                self.pin_store.cache_row(source, shard, (version, pins));
                return Ok(T::default());
            };
            match self.pin_store.write_row(source, shard, (version, pins)).await {
                Ok(()) => return Ok(told),
                Err(StoreError::Conflict { .. }) if tries < MAX_WRITE_ATTEMPTS => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Records changes. They are already applied and only restrict; a failure to record is logged.
    fn record_changes(&self, source: &SourceName, changes: Vec<PinChangeEvent>) {
        let mut kinds: BTreeMap<PinChange, Vec<PinChangeEvent>> = BTreeMap::new();
        for told in changes {
            // A completely new catalog is not reported tool by tool.
            kinds.entry(told.change).or_default().push(told);
        }
        for (change, all) in kinds {
            tracing::info!(source = %source, pins = all.len(), "{}", change.as_str());
            let many = all.len() > MAX_EVENTS_PER_CHANGE;
            let events = if many {
                Vec::new()
            } else {
                all.iter().map(|it| it.to_audit_event(self)).collect()
            };
            let blank = PinChangeEvent { change, name: None, before: None, after: None };
            let summary = many.then(|| AuditEventRecord {
                comment: Some(format!("{} tools", all.len())),
                ..blank.to_audit_event(self)
            });
            for event in events.into_iter().chain(summary) {
                let event = AuditEventRecord { source: Some(source.clone()), ..event };
                if let Err(error) = self.audit_log.record_event(&event) {
                    tracing::error!(%error, source = %source, "cannot record a change of a pin");
                    return;
                }
            }
        }
    }
}

/// One pin change, for the audit log.
#[derive(Debug)]
struct PinChangeEvent {
    change: PinChange,
    name: Option<ToolName>,
    before: Option<Digest>,
    after: Option<Digest>,
}

impl PinChangeEvent {
    fn to_audit_event(&self, pins: &PinRegistry) -> AuditEventRecord {
        AuditEventRecord {
            recorded_at: pins.clock.wall_now(),
            org: pins.org.clone(),
            kind: self.change.as_str().to_owned(),
            changed_by: None,
            source: None,
            tool: self.name.clone(),
            digest_before: self.before,
            digest_after: self.after,
            comment: None,
        }
    }
}

/// What a listing shows of the pins of one row.
#[derive(Debug, Clone, Copy)]
struct ListingObservations<'a> {
    /// Definitions that are not active.
    definitions: &'a [(ToolName, ObservedDefinition)],
    /// Active pins whose tools are not listed.
    missing: &'a [ToolName],
    trust: SourceTrust,
    is_first_listing: bool,
}

/// Applies observed and missing definitions to one row; `None` if nothing changes.
fn apply_observations(
    pins: &mut BTreeMap<ToolName, Pin>,
    observed: ListingObservations<'_>,
) -> Option<Vec<PinChangeEvent>> {
    let (trust, first) = (observed.trust, observed.is_first_listing);
    let (mut changed, mut told) = (false, Vec::new());
    for (name, sight) in observed.definitions {
        let old = pins.get(name);
        let before = old.and_then(|pin| pin.active.as_ref()).map(|active| active.digest);
        let Some(update) = pin::observe_definition(old, trust, sight.clone(), first) else {
            continue;
        };
        let after = Some(sight.digest);
        // For fully trusted sources only changes are reported, not new tools.
        let news = update
            .change
            .filter(|change| trust != SourceTrust::Full || *change != PinChange::Activated);
        told.extend(news.map(|change| PinChangeEvent {
            change,
            name: Some(name.clone()),
            before,
            after,
        }));
        pins.insert(name.clone(), update.pin);
        changed = true;
    }
    for name in observed.missing {
        let Some(pin) = pins.get(name).and_then(pin::retire_pin) else { continue };
        let before = pin.active.as_ref().map(|active| active.digest);
        let change = PinChange::Retired;
        told.push(PinChangeEvent { change, name: Some(name.clone()), before, after: None });
        pins.insert(name.clone(), pin);
        changed = true;
    }
    changed.then_some(told)
}

/// Builds the stored observation. Its text is stored if somebody may have to compare it.
fn observed_definition(
    definition: SourceDefinition<'_>,
    trust: SourceTrust,
    at: WallTime,
) -> ObservedDefinition {
    let received = definition.raw_definition;
    let kept = trust != SourceTrust::Full && received.bytes().len() <= MAX_STORED_TEXT_BYTES;
    ObservedDefinition {
        digest: definition.digest,
        observed_at: at,
        raw_definition: kept.then(|| received.clone()),
        has_invisible_chars: definition.has_invisible_chars,
    }
}

#[cfg(test)]
mod tests;
