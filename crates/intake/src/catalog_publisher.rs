//! Publisher of the merged catalog: holds the configured sources in order, and is the only writer
//! of the catalog.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use catalog::{CurrentSnapshot, SourceCatalog, SourceState};
use policy::Policy;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tool::{Org, Source, SourceName};

use crate::{ConfiguredSource, PinRegistry};

/// Window in which listings are batched while other sources are still starting, or the last catalog
/// is as recent: otherwise a catalog of many sources would be merged once for each of them.
const BATCH_WINDOW: Duration = Duration::from_millis(20);

/// Number of the first refresh request.
pub(crate) const FIRST_REFRESH: u64 = 1;

/// Refresh channels of a source task.
#[derive(Debug)]
pub(crate) struct RefreshChannels {
    /// Number of requested refreshes; closes when the source is removed.
    pub(crate) requested: watch::Receiver<u64>,
    /// Number of completed refreshes.
    pub(crate) completed: watch::Sender<u64>,
}

#[derive(Debug)]
struct RunningSource {
    source: Arc<dyn Source>,
    fingerprint: u64,
    requested: watch::Sender<u64>,
    completed: watch::Receiver<u64>,
    source_catalog: Arc<SourceCatalog>,
}

#[derive(Debug, Default)]
struct SourceTable {
    order: Vec<SourceName>,
    running: HashMap<SourceName, RunningSource>,
    /// Time at which the catalog was published last.
    published_at: Option<Instant>,
}

impl SourceTable {
    /// Returns the catalogs of the sources, in the operator's order.
    fn source_catalogs(&self) -> Vec<Arc<SourceCatalog>> {
        let running = self.order.iter().filter_map(|name| self.running.get(name));
        running.map(|running| Arc::clone(&running.source_catalog)).collect()
    }
}

/// A source with a task that is not in the catalog yet.
#[derive(Debug)]
pub(crate) struct PreparedSource(RunningSource);

impl PreparedSource {
    pub(crate) fn new(configured: &ConfiguredSource) -> (Self, RefreshChannels) {
        let (running, wires) = new_running_source(configured);
        (Self(running), wires)
    }

    /// Sets its first listing.
    pub(crate) fn set_listed(&mut self, source_catalog: SourceCatalog) {
        self.0.source_catalog = Arc::new(source_catalog);
    }
}

impl SourceTable {
    /// Returns true if further listings may arrive soon.
    fn is_batching(&self) -> bool {
        self.published_at.is_some_and(|at| at.elapsed() < BATCH_WINDOW)
            || self
                .running
                .values()
                .any(|running| running.source_catalog.state == SourceState::Starting)
    }
}

/// The one writer of the catalog.
#[derive(Debug)]
pub(crate) struct CatalogPublisher {
    pub(crate) org: Org,
    source_table: Mutex<SourceTable>,
    current_snapshot: Arc<CurrentSnapshot<Policy>>,
    versions: watch::Sender<u64>,
    pub(crate) pin_registry: Option<Arc<PinRegistry>>,
}

impl CatalogPublisher {
    pub(crate) fn new(
        org: Org,
        pins: Option<Arc<PinRegistry>>,
        current: Arc<CurrentSnapshot<Policy>>,
        versions: watch::Sender<u64>,
    ) -> Self {
        Self {
            org,
            source_table: Mutex::default(),
            current_snapshot: current,
            versions,
            pin_registry: pins,
        }
    }

    fn lock_table(&self) -> MutexGuard<'_, SourceTable> {
        self.source_table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a source would replace one with another configuration.
    pub(crate) fn would_replace(&self, configured: &ConfiguredSource) -> bool {
        let sources = self.lock_table();
        let there = sources.running.get(configured.source.name());
        there.is_some_and(|running| running.fingerprint != configured.fingerprint)
    }

    /// Sets the sources and returns those to start. The `prepared` ones have already started.
    /// Dropping the refresh sender of removed sources ends their tasks. Of two sources with one
    /// name the first is used; configuration rejects that before. A given policy becomes active at
    /// the same moment.
    pub(crate) fn set_sources(
        &self,
        configured: Vec<ConfiguredSource>,
        mut prepared: HashMap<SourceName, PreparedSource>,
        policy: Option<&Policy>,
    ) -> Vec<(ConfiguredSource, RefreshChannels)> {
        let mut sources = self.lock_table();
        let mut old = std::mem::take(&mut *sources);
        let mut start = Vec::new();
        for sourced in configured {
            let name = sourced.source.name().clone();
            if sources.running.contains_key(&name) {
                continue;
            }
            let kept = old.running.remove(&name).filter(|r| r.fingerprint == sourced.fingerprint);
            let running = match (kept, prepared.remove(&name)) {
                (Some(kept), _) => kept,
                (None, Some(PreparedSource(mut running))) => {
                    let mut shelf = SourceCatalog::clone(&running.source_catalog);
                    self.apply_pins(&mut shelf);
                    running.source_catalog = Arc::new(shelf);
                    running
                }
                (None, None) => {
                    let (running, wires) = new_running_source(&sourced);
                    start.push((sourced, wires));
                    running
                }
            };
            sources.order.push(name.clone());
            sources.running.insert(name, running);
        }
        self.publish_with(&mut sources, policy);
        start
    }

    /// Adds a source unless it exists unchanged; returns it to be started.
    pub(crate) fn add_source(
        &self,
        configured: ConfiguredSource,
    ) -> Option<(ConfiguredSource, RefreshChannels)> {
        let mut sources = self.lock_table();
        let name = configured.source.name().clone();
        let there = sources.running.get(&name);
        if there.is_some_and(|running| running.fingerprint == configured.fingerprint) {
            return None;
        }
        if there.is_none() {
            sources.order.push(name.clone());
        }
        let (running, wires) = new_running_source(&configured);
        sources.running.insert(name, running);
        self.publish_catalog(&mut sources);
        Some((configured, wires))
    }

    /// Removes a source; dropping its refresh sender ends its task.
    pub(crate) fn remove_source(&self, name: &SourceName) {
        let mut sources = self.lock_table();
        if sources.running.remove(name).is_some() {
            sources.order.retain(|other| other != name);
            self.publish_catalog(&mut sources);
        }
    }

    /// Publishes a source catalog, unless its source was removed or restarted meanwhile. Resolves
    /// when the catalog has it: immediately, or batched with others. An unchanged source catalog
    /// publishes nothing.
    pub(crate) async fn publish_source(
        &self,
        source_catalog: SourceCatalog,
        completed: &watch::Sender<u64>,
    ) {
        let Some(before) = self.replace_source_catalog(source_catalog, completed) else { return };
        let mut numbers = self.versions.subscribe();
        if timeout(BATCH_WINDOW, numbers.wait_for(|_| self.catalog_version() > before))
            .await
            .is_err()
        {
            let mut sources = self.lock_table();
            if self.catalog_version() == before {
                self.publish_catalog(&mut sources);
            }
        }
    }

    /// Replaces a source catalog; returns the version of the catalog without it if publication is
    /// to be awaited.
    fn replace_source_catalog(
        &self,
        mut shelf: SourceCatalog,
        of: &watch::Sender<u64>,
    ) -> Option<u64> {
        let mut sources = self.lock_table();
        // Runs under the lock, so that a concurrent pin decision is not undone by an older listing.
        self.apply_pins(&mut shelf);
        let running = sources.running.get_mut(&shelf.source)?;
        if !running.completed.same_channel(&of.subscribe()) {
            return None;
        }
        if running.source_catalog.is_same_catalog(&shelf) {
            return None;
        }
        running.source_catalog = Arc::new(shelf);
        if sources.is_batching() {
            return Some(self.catalog_version());
        }
        self.publish_catalog(&mut sources);
        None
    }

    fn apply_pins(&self, shelf: &mut SourceCatalog) {
        if let Some(pins) = &self.pin_registry {
            pins.apply_pins(shelf);
        }
    }

    /// Applies the pins of a source again and publishes the catalog.
    pub(crate) fn reapply_pins(&self, source: &SourceName) {
        let mut sources = self.lock_table();
        let Some(running) = sources.running.get_mut(source) else { return };
        let mut shelf = SourceCatalog::clone(&running.source_catalog);
        self.apply_pins(&mut shelf);
        running.source_catalog = Arc::new(shelf);
        self.publish_catalog(&mut sources);
    }

    /// Sets the policy; the catalog stays.
    pub(crate) fn set_policy(&self, policy: &Policy) {
        // Runs under the lock, so that subscribers of a version find it.
        let _sources = self.lock_table();
        self.versions.send_replace(self.current_snapshot.update_snapshot(None, Some(policy)));
    }

    /// Publishes the toolsets as they are, with the items of all sources as they are. Both are read
    /// under the lock: an older table replaces no newer one, and whoever waits for a listing finds it
    /// in the next version.
    pub(crate) fn publish_toolsets(&self) {
        let Some(pins) = &self.pin_registry else { return };
        let mut sources = self.lock_table();
        let toolsets = pins.toolsets().compile_table();
        let before = self.current_snapshot.catalog();
        if before.list_toolsets().eq(toolsets.values()) {
            return;
        }
        sources.published_at = Some(Instant::now());
        let next = before.with_sources(before.version + 1, sources.source_catalogs());
        let catalog = Arc::new(next.with_toolsets(before.version + 1, toolsets));
        self.versions.send_replace(self.current_snapshot.update_snapshot(Some(&catalog), None));
    }

    /// Returns the version of the current catalog.
    fn catalog_version(&self) -> u64 {
        self.current_snapshot.load_snapshot().catalog.version
    }

    fn publish_catalog(&self, sources: &mut SourceTable) {
        self.publish_with(sources, None);
    }

    fn publish_with(&self, sources: &mut SourceTable, rules: Option<&Policy>) {
        sources.published_at = Some(Instant::now());
        let before = self.current_snapshot.catalog();
        let shelves = sources.source_catalogs();
        let catalog = Arc::new(before.with_sources(before.version + 1, shelves));
        self.versions.send_replace(self.current_snapshot.update_snapshot(Some(&catalog), rules));
    }

    /// Requests a refresh of one source or all; returns what to wait for.
    pub(crate) fn request_refresh(&self, only: Option<&SourceName>) -> Vec<RefreshTicket> {
        let sources = self.lock_table();
        let wanted = sources.running.iter().filter(|(name, _)| only.is_none_or(|o| o == *name));
        wanted
            .map(|(_, running)| {
                running.requested.send_modify(|asked| *asked += 1);
                let number = *running.requested.borrow();
                RefreshTicket { completed: running.completed.clone(), number }
            })
            .collect()
    }

    pub(crate) fn find_source(&self, name: &SourceName) -> Option<Arc<dyn Source>> {
        self.lock_table().running.get(name).map(|running| Arc::clone(&running.source))
    }

    pub(crate) fn completed_refreshes(&self) -> Vec<watch::Receiver<u64>> {
        self.lock_table().running.values().map(|running| running.completed.clone()).collect()
    }
}

/// A requested refresh of one source.
#[derive(Debug)]
pub(crate) struct RefreshTicket {
    /// Number of the last refresh that is complete.
    pub(crate) completed: watch::Receiver<u64>,
    /// Number of the requested refresh.
    pub(crate) number: u64,
}

/// Creates a source with the first refresh already requested.
fn new_running_source(sourced: &ConfiguredSource) -> (RunningSource, RefreshChannels) {
    let (asked, asked_seen) = watch::channel(FIRST_REFRESH);
    let (done, done_seen) = watch::channel(0);
    let shelf = sourced.new_source_catalog();
    let fingerprint = sourced.fingerprint;
    let source = Arc::clone(&sourced.source);
    let running = RunningSource {
        source,
        fingerprint,
        requested: asked,
        completed: done_seen,
        source_catalog: Arc::new(shelf),
    };
    (running, RefreshChannels { requested: asked_seen, completed: done })
}
