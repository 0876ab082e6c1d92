//! The task of one source: lists it, retries with backoff, waits for changes, closes it.

use std::collections::HashSet;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use catalog::SourceCatalog;
use futures_util::FutureExt as _;
use tokio::time::{sleep, timeout};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tool::source::SourceErrorKind;
use tool::{Clock, FastHashState, Problem, SourceError, SourceListing, SourceName, SourceRevision};

use crate::catalog_publisher::{CatalogPublisher, FIRST_REFRESH, RefreshChannels};
use crate::failure_log::{FailureLog, LogDecision};
use crate::pin_registry::PinUpdateStatus;
use crate::{ConfiguredSource, SupervisorTimeouts};

/// Number of tools from which compilation runs on a blocking thread.
const BLOCKING_COMPILE_TOOLS: usize = 500;
/// Maximum number of problems of one listing that are logged by name.
const MAX_LOGGED_PROBLEMS: usize = 20;

pub(crate) struct SourceTask {
    pub(crate) configured: ConfiguredSource,
    pub(crate) channels: RefreshChannels,
    pub(crate) publisher: Arc<CatalogPublisher>,
    pub(crate) timeouts: SupervisorTimeouts,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tasks: TaskTracker,
    /// First listing, made before the source is in the catalog.
    pub(crate) first_listing: Option<FirstListing>,
}

/// First listing of a source.
pub(crate) struct FirstListing {
    source_catalog: SourceCatalog,
    pin_status: PinUpdateStatus,
    failure_log: FailureLog,
}

impl SourceTask {
    /// Lists the source for the first time, before it is in the catalog. `None` if that fails: it
    /// is retried once it is there.
    pub(crate) async fn prepare_listing(&mut self) -> Option<SourceCatalog> {
        let (listing, mut log) = (self.list_source().await.ok()?, FailureLog::default());
        let mut shelf = self.apply_listing(self.new_source_catalog(), Ok(listing), &mut log).await;
        let looked = self.update_pins(&mut shelf, true).await?;
        self.first_listing = Some(FirstListing {
            source_catalog: shelf.clone(),
            pin_status: looked,
            failure_log: log,
        });
        Some(shelf)
    }

    fn new_source_catalog(&self) -> SourceCatalog {
        self.configured.new_source_catalog()
    }

    pub(crate) async fn run_task(mut self) {
        self.list_until_removed().await;
        let closing =
            timeout(self.timeouts.close_timeout, self.configured.source.shut_down()).await;
        if closing.is_err() {
            tracing::warn!(source = %self.configured.source.name(), "the source did not close in time");
        }
    }

    /// Lists the source until it is removed.
    async fn list_until_removed(&mut self) {
        let (mut shelf, mut failures, mut log) =
            (self.new_source_catalog(), 0, FailureLog::default());
        if let Some(ready) = self.first_listing.take() {
            (shelf, log) = (ready.source_catalog, ready.failure_log);
            self.channels.completed.send_replace(FIRST_REFRESH);
            if !self.wait_for_next_listing(Some(shelf.revision), 0, ready.pin_status).await {
                return;
            }
        }
        loop {
            let asked = *self.channels.requested.borrow_and_update();
            let before = self.revision_before_listing(shelf.revision);
            // Neither the catalog nor the shutdown waits for a source.
            let listing = tokio::select! {
                listing = self.list_source() => listing,
                () = wait_until_removed(&self.channels) => return,
            };
            failures = if listing.is_ok() { 0 } else { failures + 1 };
            let fresh = listing.is_ok();
            shelf = self.apply_listing(shelf, listing, &mut log).await;
            let Some(looked) = self.update_pins(&mut shelf, fresh).await else { return };
            let seen = if failures > 0 { before } else { Some(shelf.revision) };
            self.publisher.publish_source(shelf.clone(), &self.channels.completed).await;
            self.channels.completed.send_replace(asked);
            if !self.wait_for_next_listing(seen, failures, looked).await {
                return;
            }
        }
    }

    /// Returns the revision about to be listed, for a source that reports recovery; `last` is that
    /// of the last successful listing.
    fn revision_before_listing(&self, last: SourceRevision) -> Option<SourceRevision> {
        let source = &self.configured.source;
        let tells = source.notifies_recovery();
        tells.then(|| source.wait_for_change(last).now_or_never().unwrap_or(last))
    }

    /// Lists in a separate task, so that a panic in a source affects only that source.
    async fn list_source(&self) -> Result<SourceListing, SourceError> {
        let source = Arc::clone(&self.configured.source);
        let listing =
            AbortOnDropHandle::new(self.tasks.spawn(async move { source.list_offers().await }));
        let limit = self.configured.source.list_timeout().unwrap_or(self.timeouts.list_timeout);
        match timeout(limit, listing).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(self.source_error(
                SourceErrorKind::Crashed,
                "an internal error of the \
                        source"
                    .into(),
            )),
            Err(_) => {
                let said = format!("no tool list within {} s", limit.as_secs());
                Err(self.source_error(SourceErrorKind::TimedOut, said))
            }
        }
    }

    /// Updates the pins from a listing before it is published; `None` if the source was removed.
    async fn update_pins(&self, shelf: &mut SourceCatalog, fresh: bool) -> Option<PinUpdateStatus> {
        let Some(pins) = self.publisher.pin_registry.as_ref().filter(|_| fresh) else {
            return Some(PinUpdateStatus::Complete);
        };
        tokio::select! {
            looked = pins.update_from_listing(shelf) => Some(looked),
            () = wait_until_removed(&self.channels) => None,
        }
    }

    fn source_error(&self, kind: SourceErrorKind, message: String) -> SourceError {
        let problem = Problem::new(self.configured.source.name().to_string(), message)
            .with_help("see the source's own log; the refresh is retried automatically");
        SourceError { kind, problem }
    }

    async fn apply_listing(
        &self,
        shelf: SourceCatalog,
        listing: Result<SourceListing, SourceError>,
        log: &mut FailureLog,
    ) -> SourceCatalog {
        let name = self.configured.source.name();
        match listing {
            Ok(listing) => {
                let known = shelf.problems.clone();
                let shelf = self.compile_listing(shelf, listing).await;
                let (tools, problems) = (shelf.tools.len(), shelf.problems.len());
                if log.record_success() {
                    tracing::info!(source = %name, tools, problems, "source listed");
                } else {
                    tracing::debug!(source = %name, tools, problems, "source can be listed again");
                }
                log_new_problems(name, &shelf.problems, &known);
                shelf
            }
            Err(error) => {
                let kept = shelf.tools.len();
                // It is retried for ever, and logged ever more rarely.
                match log.record_failure() {
                    LogDecision::Log { since_last: 0 } => {
                        tracing::warn!(source = %name, %error, kept, "cannot list the source");
                    }
                    LogDecision::Log { since_last } => {
                        tracing::warn!(
                            source = %name,
                            %error,
                            kept,
                            failures = since_last + 1,
                            "the source still cannot be listed"
                        );
                    }
                    LogDecision::Skip => {
                        tracing::debug!(
                            source = %name,
                            %error,
                            kept,
                            "the source still cannot be listed"
                        );
                    }
                }
                shelf.with_failure(&error, self.clock.wall_now())
            }
        }
    }

    /// Hashing thousands of definitions would delay calls noticeably.
    async fn compile_listing(&self, shelf: SourceCatalog, listing: SourceListing) -> SourceCatalog {
        if listing.offers.len() < BLOCKING_COMPILE_TOOLS {
            return shelf.with_listing(&self.publisher.org, listing);
        }
        let (last, org) = (shelf.clone(), self.publisher.org.clone());
        let compile = move || shelf.with_listing(&org, listing);
        // A panic in that code keeps the previous state.
        tokio::task::spawn_blocking(compile).await.unwrap_or(last)
    }

    /// Waits until the next listing is due; `false` if the source was removed. A change of
    /// `known_revision` triggers a listing, if it is given.
    async fn wait_for_next_listing(
        &mut self,
        known_revision: Option<SourceRevision>,
        failures: usize,
        looked: PinUpdateStatus,
    ) -> bool {
        let failed = failures > 0;
        let retry = self
            .timeouts
            .retry_backoff
            .get(failures.saturating_sub(1))
            .or(self.timeouts.retry_backoff.last());
        let again = if failed || looked == PinUpdateStatus::RetryNeeded {
            retry.copied()
        } else {
            self.configured.poll_interval.map(spread_interval)
        };
        let source = Arc::clone(&self.configured.source);
        tokio::select! {
            asked = self.channels.requested.changed() => {
                // An explicit request resets the source's own backoff.
                self.configured.source.reset_backoff();
                asked.is_ok()
            }
            // After a failure the revision is that of the last success and would differ for ever,
            // unless it was read before.
            () = wait_for_change(source.as_ref(), known_revision) => true,
            () = sleep_or_pend(again) => true,
        }
    }
}

/// Returns a random time of nine to ten tenths of an interval, so that sources that started together
/// are not listed together for ever.
fn spread_interval(interval: Duration) -> Duration {
    // Each state has a seed of its own.
    let [random, ..] = FastHashState::default().hash_one(interval).to_le_bytes();
    interval.mul_f64(0.9 + 0.1 * f64::from(random) / 256.0)
}

async fn wait_for_change(source: &dyn tool::Source, seen: Option<SourceRevision>) {
    match seen {
        Some(seen) => drop(source.wait_for_change(seen).await),
        None => std::future::pending().await,
    }
}

async fn sleep_or_pend(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait).await,
        None => std::future::pending().await,
    }
}

async fn wait_until_removed(wires: &RefreshChannels) {
    let mut asked = wires.requested.clone();
    while asked.changed().await.is_ok() {}
}

/// Logs new problems of a source's tools by name.
fn log_new_problems(source: &SourceName, problems: &[Problem], known: &[Problem]) {
    let place = |problem: &'_ Problem| (problem.location.clone(), problem.message.clone());
    let known: HashSet<_> = known.iter().map(place).collect();
    let new = problems.iter().filter(|problem| !known.contains(&place(problem)));
    let (mut named, mut more) = (0, 0);
    for problem in new {
        if named == MAX_LOGGED_PROBLEMS {
            more += 1;
            continue;
        }
        named += 1;
        let fix = problem.help.as_deref().unwrap_or_default();
        tracing::error!(%source, place = problem.location, fix, "{}", problem.message);
    }
    if more > 0 {
        tracing::error!(%source, more, "more problems; run `toolkeep source list` to see them");
    }
}
