//! Supervises sources and publishes the catalog of their offers.
//!
//! Each source is listed by its own task, so that one that hangs, misbehaves or crashes delays no
//! other. Its last listing stays while it is unavailable. The catalog is swapped atomically with
//! its policy. This crate knows no kind of source and decides nothing about callers.

mod catalog_publisher;
mod configured_source;
mod failure_log;
mod pin_registry;
mod source_task;
mod tool_switches;
mod toolset_error;
mod toolset_registry;
mod toolset_review;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use catalog::{Catalog, CurrentSnapshot, Pin, SourceCatalog, SourceState};
use futures_util::future::join_all;
use policy::Policy;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tool::source::ProbeResult;
use tool::{Clock, MonotonicTime, Org, Source, SourceName, ToolName};

pub use pin_registry::{DecidePinError, PinEntry, PinRegistry, PinReview, PinVerdict};
pub use tool_switches::{DisabledNames, SwitchError, ToolSwitch};
pub use toolset_error::ToolsetError;
pub use toolset_registry::{AcceptedItem, AcceptedItems, ToolsetRecord, ToolsetRegistry};
pub use toolset_review::{ToolsetItem, ToolsetItemState, ToolsetReview};

use catalog_publisher::{CatalogPublisher, PreparedSource, RefreshChannels, RefreshTicket};
pub use configured_source::ConfiguredSource;
use source_task::SourceTask;

/// Timeouts of the supervision.
#[derive(Debug, Clone, Copy)]
pub struct SupervisorTimeouts {
    /// Maximum duration of a listing.
    pub list_timeout: Duration,
    /// Delays after consecutive failures; the last one repeats.
    pub retry_backoff: [Duration; 4],
    /// Maximum duration of closing a source.
    pub close_timeout: Duration,
}

impl Default for SupervisorTimeouts {
    /// Returns 35 s for a listing; retries after 5, 10, 20 and 30 s (as the module API does), then
    /// every 30 s; 10 s to close.
    fn default() -> Self {
        let retry = [5, 10, 20, 30].map(Duration::from_secs);
        Self {
            list_timeout: Duration::from_secs(35),
            retry_backoff: retry,
            close_timeout: Duration::from_secs(10),
        }
    }
}

/// Supervises sources and keeps the catalog up to date.
#[derive(Debug)]
pub struct SourceSupervisor {
    current_snapshot: Arc<CurrentSnapshot<Policy>>,
    publisher: Arc<CatalogPublisher>,
    version: watch::Receiver<u64>,
    tasks: TaskTracker,
    times: SupervisorTimeouts,
    clock: Arc<dyn Clock>,
    last_refresh_attempt: Mutex<Option<MonotonicTime>>,
}

/// Minimum interval between attempts to refresh unlisted sources.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum time that a new configuration waits for locally listed sources.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(5);

impl SourceSupervisor {
    /// Starts listing `sources` and returns immediately. Their order is that of the configuration,
    /// which decides name conflicts. No pins apply: see [`SourceSupervisor::start_with_pins`].
    pub fn start_sources(
        org: Org,
        sources: Vec<ConfiguredSource>,
        timeouts: SupervisorTimeouts,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::start_inner(org, None, sources, timeouts, clock)
    }

    /// Starts listing `sources` with pins, which decide which definitions are callable.
    pub fn start_with_pins(
        org: Org,
        pins: Arc<PinRegistry>,
        sources: Vec<ConfiguredSource>,
        timeouts: SupervisorTimeouts,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::start_inner(org, Some(pins), sources, timeouts, clock)
    }

    fn start_inner(
        org: Org,
        pins: Option<Arc<PinRegistry>>,
        sources: Vec<ConfiguredSource>,
        times: SupervisorTimeouts,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let current = Arc::new(CurrentSnapshot::new(Catalog::default(), Policy::default()));
        let (numbers, number) = watch::channel(0);
        let keeper = Arc::new(CatalogPublisher::new(org, pins, Arc::clone(&current), numbers));
        let (tasks, woken) = (TaskTracker::new(), Mutex::default());
        let intake = Self {
            current_snapshot: current,
            publisher: keeper,
            version: number,
            tasks,
            times,
            clock,
            last_refresh_attempt: woken,
        };
        intake.set_configured_toolsets(Vec::new());
        intake.set_sources(sources);
        intake
    }

    /// Returns the active catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.current_snapshot.catalog()
    }

    /// Returns the active policy.
    pub fn policy(&self) -> Policy {
        self.current_snapshot.policy()
    }

    /// Returns the holder of the active snapshot, for readers on every call.
    pub fn current_snapshot(&self) -> Arc<CurrentSnapshot<Policy>> {
        Arc::clone(&self.current_snapshot)
    }

    /// Subscribes to versions of the catalog and the policy.
    pub fn subscribe_versions(&self) -> watch::Receiver<u64> {
        self.version.clone()
    }

    /// Applies a new configuration: unchanged sources keep running, removed ones are closed, new
    /// ones start.
    pub fn set_sources(&self, sources: Vec<ConfiguredSource>) {
        self.spawn_source_tasks(self.publisher.set_sources(sources, HashMap::new(), None));
    }

    /// Applies a new configuration and its policy in one step: sources are removed with the old
    /// policy, and added with the new one.
    pub fn set_sources_and_policy(&self, sources: Vec<ConfiguredSource>, policy: &Policy) {
        self.spawn_source_tasks(self.publisher.set_sources(sources, HashMap::new(), Some(policy)));
    }

    /// Applies a new configuration and policy after replaced sources that are [listed
    /// locally](tool::Source::is_listed_locally) have been listed; until then the old ones serve under the
    /// old policy. A source that is not listed within five seconds replaces the old one without
    /// tools.
    pub async fn replace_sources_and_policy(
        &self,
        sources: Vec<ConfiguredSource>,
        policy: &Policy,
    ) {
        let replaces = |new: &&ConfiguredSource| {
            new.source.is_listed_locally() && self.publisher.would_replace(new)
        };
        let prepared = sources.iter().filter(replaces).map(|new| self.prepare_source(new.clone()));
        let (mut prepared, mut tasks) = (join_all(prepared).await, Vec::new());
        let prepared = prepared.drain(..).map(|(prepared, supervised)| {
            let name = supervised.configured.source.name().clone();
            tasks.push(supervised);
            (name, prepared)
        });
        let new = self.publisher.set_sources(sources, prepared.collect(), Some(policy));
        for supervised in tasks {
            drop(self.tasks.spawn(supervised.run_task()));
        }
        self.spawn_source_tasks(new);
    }

    /// Prepares a source with its first listing if possible, and its task.
    async fn prepare_source(&self, sourced: ConfiguredSource) -> (PreparedSource, SourceTask) {
        let (mut prepared, wires) = PreparedSource::new(&sourced);
        let mut supervised = self.source_task(sourced, wires);
        if let Ok(Some(shelf)) = timeout(PREPARE_TIMEOUT, supervised.prepare_listing()).await {
            prepared.set_listed(shelf);
        }
        (prepared, supervised)
    }

    fn source_task(&self, sourced: ConfiguredSource, wires: RefreshChannels) -> SourceTask {
        let (keeper, times) = (Arc::clone(&self.publisher), self.times);
        let (clock, tasks) = (Arc::clone(&self.clock), self.tasks.clone());
        SourceTask {
            configured: sourced,
            channels: wires,
            publisher: keeper,
            timeouts: times,
            clock,
            tasks,
            first_listing: None,
        }
    }

    /// Sets the policy; the sources stay.
    pub fn set_policy(&self, policy: &Policy) {
        self.publisher.set_policy(policy);
    }

    /// Adds a source after the others, or replaces one of the same name.
    pub fn add_source(&self, source: Option<ConfiguredSource>) {
        self.spawn_source_tasks(source.and_then(|source| self.publisher.add_source(source)));
    }

    /// Removes a source and its offers; its child processes end a little later.
    pub fn remove_source(&self, name: &SourceName) {
        self.publisher.remove_source(name);
    }

    fn spawn_source_tasks(
        &self,
        new: impl IntoIterator<Item = (ConfiguredSource, RefreshChannels)>,
    ) {
        for (sourced, wires) in new {
            drop(self.tasks.spawn(self.source_task(sourced, wires).run_task()));
        }
    }

    /// Refreshes all sources or one, and waits until that is done, at most as long as one listing
    /// may take.
    ///
    /// # Errors
    /// The name, if there is no such source.
    pub async fn refresh_sources(&self, only: Option<&SourceName>) -> Result<(), SourceName> {
        let asked = self.publisher.request_refresh(only);
        if let Some(name) = only.filter(|_| asked.is_empty()) {
            return Err(name.clone());
        }
        let listed = asked.into_iter().map(|mut ticket| async move {
            let RefreshTicket { completed, number } = &mut ticket;
            // A source that was removed meanwhile needs no waiting.
            drop(completed.wait_for(|done| *done >= *number).await.map(|done| *done));
        });
        // A source with a slower start is listed once it is up.
        drop(timeout(self.times.list_timeout, join_all(listed)).await);
        Ok(())
    }

    /// Refreshes all sources of a kind, and waits until that is done, at most for `limit`.
    pub async fn refresh_kind(&self, kind: &str, limit: Duration) {
        let names = self.sources_of_kind(kind, |_| true);
        let all = names.iter().map(|name| self.refresh_sources(Some(name)));
        drop(timeout(limit, join_all(all)).await);
    }

    /// Refreshes all sources of a kind if none of them was ever listed, and nobody tried within the
    /// last seconds, so that frequent listings do no harm.
    pub async fn refresh_if_unlisted(&self, kind: &str, limit: Duration) {
        let known = |shelf: &SourceCatalog| {
            matches!(shelf.state, SourceState::Current | SourceState::Stale)
        };
        if !self.sources_of_kind(kind, known).is_empty()
            || self.sources_of_kind(kind, |_| true).is_empty()
        {
            return;
        }
        let now = self.clock.monotonic_now();
        let due = {
            let mut woken =
                self.last_refresh_attempt.lock().unwrap_or_else(PoisonError::into_inner);
            let due =
                woken.is_none_or(|woken| now.saturating_duration_since(woken) >= REFRESH_INTERVAL);
            *woken = if due { Some(now) } else { *woken };
            due
        };
        if due {
            self.refresh_kind(kind, limit).await;
        }
    }

    fn sources_of_kind(
        &self,
        kind: &str,
        fits: impl Fn(&SourceCatalog) -> bool,
    ) -> Vec<SourceName> {
        let catalog = self.catalog();
        let fitting = catalog.list_sources().filter(|shelf| shelf.kind == kind && fits(shelf));
        fitting.map(|shelf| shelf.source.clone()).collect()
    }

    /// Returns the pin registry, if there is one.
    pub fn pin_registry(&self) -> Option<&Arc<PinRegistry>> {
        self.publisher.pin_registry.as_ref()
    }

    /// Returns the number of a source's tools that need a review.
    pub fn pins_to_review(&self, source: &SourceName) -> usize {
        self.pin_registry().map_or(0, |pins| pins.review_count(source))
    }

    /// Decides on a reviewed definition; the catalog has the result when this resolves.
    ///
    /// # Errors
    /// As [`PinRegistry::decide_pin`].
    pub async fn decide_pin(
        &self,
        source: &SourceName,
        tool: &ToolName,
        review: PinReview<'_>,
    ) -> Result<Pin, DecidePinError> {
        let missing =
            || DecidePinError::NotFound { source_name: source.clone(), tool: tool.clone() };
        let pin = self.pin_registry().ok_or_else(missing)?.decide_pin(source, tool, review).await?;
        let (keeper, source) = (Arc::clone(&self.publisher), source.clone());
        // A complete catalog is merged: not on a thread that others wait for.
        drop(tokio::task::spawn_blocking(move || keeper.reapply_pins(&source)).await);
        Ok(pin)
    }

    /// Turns a source or a tool on or off; the catalog has the result when this resolves. Without a pin
    /// registry nothing can be turned off.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub async fn set_switch(
        &self,
        switch: ToolSwitch<'_>,
    ) -> Result<Option<Arc<DisabledNames>>, SwitchError> {
        let Some(pins) = self.pin_registry() else { return Ok(None) };
        let names = pins.set_switch(switch).await?;
        let (keeper, source) = (Arc::clone(&self.publisher), switch.source.clone());
        drop(tokio::task::spawn_blocking(move || keeper.reapply_pins(&source)).await);
        Ok(Some(names))
    }

    /// Probes the address and health of a source; `None` for an unknown source, or one without an
    /// address.
    pub async fn probe_source(&self, name: &SourceName) -> Option<ProbeResult> {
        let source = self.publisher.find_source(name)?;
        source.probe_health().await
    }

    /// Returns a running source.
    pub fn find_source(&self, name: &SourceName) -> Option<Arc<dyn Source>> {
        self.publisher.find_source(name)
    }

    /// Resolves when every source was listed or failed once.
    pub async fn wait_until_listed(&self) {
        for mut done in self.publisher.completed_refreshes() {
            drop(done.wait_for(|done| *done > 0).await.map(|done| *done));
        }
    }

    /// Closes all sources; resolves when their child processes have ended.
    pub async fn shut_down(&self) {
        self.set_sources(Vec::new());
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests;
