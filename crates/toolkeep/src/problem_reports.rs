//! Problems of the configuration, the store and the cache, reported as sources without tools.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use intake::{ConfiguredSource, SourceSupervisor};
use store::RejectedRow;
use tokio::sync::watch;
use tool::names::{CACHE_SOURCE, CONFIGURATION_SOURCE, STORE_SOURCE};
use tool::source::SourceErrorKind;
use tool::{
    BoxFuture, Problem, Source, SourceError, SourceListing, SourceName, SourceRevision, SourceTrust,
};

use config::{Config, ConfigErrors};

/// Maximum number of rejected rows that are reported by name.
const MAX_NAMED_ROWS: usize = 20;

/// A source without tools that only reports problems.
#[derive(Debug)]
pub(crate) struct ProblemSource {
    name: SourceName,
    listing: Result<SourceListing, SourceError>,
}

impl ProblemSource {
    /// Creates a source that lists no tools, with the problems.
    fn with_problems(name: SourceName, problems: Vec<Problem>) -> Self {
        Self { name, listing: Ok(SourceListing { problems, ..SourceListing::default() }) }
    }

    /// Creates a source that cannot be built from its configuration; its listing fails.
    pub(crate) fn unavailable(name: SourceName, problem: Problem) -> Self {
        Self { name, listing: Err(SourceError { kind: SourceErrorKind::Blocked, problem }) }
    }
}

/// Problems of the configuration, shown by the source `configuration`.
#[derive(Debug, Default)]
pub(crate) struct ConfigReport(Mutex<ConfigProblems>);

#[derive(Debug, Default)]
struct ConfigProblems {
    /// The configuration that is currently active.
    config: Option<Arc<Config>>,
    /// Errors of the newest configuration, or of the parts that were left out.
    config_errors: Vec<Problem>,
    /// Changes that need a restart.
    restart_required: Vec<Problem>,
    /// Names that match no tool or source.
    unmatched_names: Vec<Problem>,
}

impl ConfigReport {
    fn lock_problems(&self) -> MutexGuard<'_, ConfigProblems> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the active configuration.
    pub(crate) fn active_config(&self) -> Option<Arc<Config>> {
        self.lock_problems().config.clone()
    }

    /// Sets the active configuration with its errors and the changes that need a restart.
    pub(crate) fn set_active(
        &self,
        config: &Config,
        errors: &ConfigErrors,
        restart_problems: Vec<Problem>,
    ) {
        let mut parts = self.lock_problems();
        (parts.config, parts.restart_required) = (Some(Arc::new(config.clone())), restart_problems);
        parts.config_errors = errors.0.iter().map(Problem::from).collect();
    }

    /// Sets the errors of a rejected configuration.
    pub(crate) fn set_errors(&self, errors: &ConfigErrors) {
        self.lock_problems().config_errors = errors.0.iter().map(Problem::from).collect();
    }

    /// Returns the problems of unmatched names.
    pub(crate) fn unmatched_names(&self) -> Vec<Problem> {
        self.lock_problems().unmatched_names.clone()
    }

    /// Sets the problems of unmatched names.
    pub(crate) fn set_unmatched_names(&self, names: Vec<Problem>) {
        self.lock_problems().unmatched_names = names;
    }

    /// Returns the problems as a source, or `None` without problems.
    pub(crate) fn to_source(&self) -> Option<ConfiguredSource> {
        let parts = self.lock_problems();
        let ConfigProblems {
            config_errors: faults,
            restart_required: restart,
            unmatched_names: names,
            ..
        } = &*parts;
        problem_source(
            CONFIGURATION_SOURCE,
            [faults.as_slice(), restart.as_slice(), names.as_slice()].concat(),
        )
    }

    /// Adds the source to the catalog, or removes it if there are no problems.
    pub(crate) fn publish_source(&self, supervisor: &SourceSupervisor) {
        match (self.to_source(), SourceName::new(CONFIGURATION_SOURCE)) {
            (None, Ok(name)) => supervisor.remove_source(&name),
            (source, _) => supervisor.add_source(source),
        }
    }
}

/// Returns a source for the store's rejected rows, or `None` without any.
pub(crate) fn store_problems(rejected: &[RejectedRow]) -> Option<ConfiguredSource> {
    let problem = |row: &RejectedRow| {
        let message = format!("the row was {} outside of Toolkeep and is ignored", row.rejection);
        let fix = "restore the data directory from a backup, or run `toolkeep store list`";
        Problem::new(row.key.as_str(), message).with_help(fix)
    };
    let mut problems: Vec<_> = rejected.iter().take(MAX_NAMED_ROWS).map(problem).collect();
    if let Some(more) = rejected.len().checked_sub(MAX_NAMED_ROWS).filter(|more| *more > 0) {
        problems.push(Problem::new("store.db", format!("{more} more rows are ignored")));
    }
    problem_source(STORE_SOURCE, problems)
}

/// Returns a source for an outage of the manifest cache, or `None` if it is available.
pub(crate) fn cache_problems(outage: Option<&String>) -> Option<ConfiguredSource> {
    let problem = |error: &String| {
        let message = format!("the cache of module manifests is unavailable: {error}");
        let fix =
            "check that Redis runs and that `redis` is correct; calls continue without the cache";
        Problem::new("redis", message).with_help(fix)
    };
    problem_source(CACHE_SOURCE, outage.map(problem).into_iter().collect())
}

fn problem_source(name: &'static str, problems: Vec<Problem>) -> Option<ConfiguredSource> {
    let source = SourceName::new(name).ok().filter(|_| !problems.is_empty())?;
    let mut hasher = DefaultHasher::new();
    format!("{problems:?}").hash(&mut hasher);
    let source = Arc::new(ProblemSource::with_problems(source, problems));
    Some(ConfiguredSource::new(source, name, SourceTrust::Full, hasher.finish()))
}

/// Reports each change of the store's rejected rows; never returns.
pub(crate) async fn watch_rejected_rows(
    mut rejected: watch::Receiver<Vec<RejectedRow>>,
    supervisor: &SourceSupervisor,
) {
    while rejected.changed().await.is_ok() {
        let source = store_problems(&rejected.borrow_and_update());
        match (source, SourceName::new(STORE_SOURCE)) {
            (None, Ok(name)) => supervisor.remove_source(&name),
            (source, _) => supervisor.add_source(source),
        }
    }
    std::future::pending::<()>().await;
}

/// Reports each start and end of an outage of the manifest cache; never returns.
pub(crate) async fn watch_cache_outage(
    mut outage: watch::Receiver<Option<String>>,
    supervisor: &SourceSupervisor,
) {
    // An outage that began earlier is reported too.
    outage.mark_changed();
    while outage.changed().await.is_ok() {
        let source = cache_problems(outage.borrow_and_update().as_ref());
        match (source, SourceName::new(CACHE_SOURCE)) {
            (None, Ok(name)) => supervisor.remove_source(&name),
            (source, _) => supervisor.add_source(source),
        }
    }
    std::future::pending::<()>().await;
}

impl Source for ProblemSource {
    fn name(&self) -> &SourceName {
        &self.name
    }
    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        Box::pin(async { self.listing.clone() })
    }
    fn wait_for_change(&self, _: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        Box::pin(std::future::pending())
    }
    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
