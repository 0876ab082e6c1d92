//! What is wrong beside the sources, shown where all that is wrong is shown: among them, as a source without tools.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use intake::{Intake, Sourced};
use store::RejectedRow;
use tokio::sync::watch;
use tool::name::{CACHE, CONFIGURATION, STORE};
use tool::{Boxed, Listing, Problem, Revision, Source, SourceError, SourceName, Trust};

use config::{Config, Faults};

/// Rejected rows of the store that are reported by name.
const NAMED: usize = 20;

/// A source that has problems and offers nothing.
#[derive(Debug)]
struct Report {
    name: SourceName,
    problems: Vec<Problem>,
}

/// What is wrong with the configuration, as the source `configuration` shows it.
#[derive(Debug, Default)]
pub(crate) struct ConfigurationReport(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    /// The configuration that is active.
    config: Option<Arc<Config>>,
    /// Why the newest is not, or what of it is left out.
    faults: Vec<Problem>,
    /// What of it waits for a restart.
    restart: Vec<Problem>,
    /// Names in it that match nothing.
    names: Vec<Problem>,
}

impl ConfigurationReport {
    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration that is active.
    pub(crate) fn config(&self) -> Option<Arc<Config>> {
        self.parts().config.clone()
    }

    /// A configuration is active from here on, with what of it waits for a restart.
    pub(crate) fn set_active(&self, config: &Config, faults: &Faults, restart: Vec<Problem>) {
        let mut parts = self.parts();
        (parts.config, parts.restart) = (Some(Arc::new(config.clone())), restart);
        parts.faults = faults.0.iter().map(Problem::from).collect();
    }

    /// The newest configuration is not taken.
    pub(crate) fn set_faults(&self, faults: &Faults) {
        self.parts().faults = faults.0.iter().map(Problem::from).collect();
    }

    /// Names that match nothing.
    pub(crate) fn names(&self) -> Vec<Problem> {
        self.parts().names.clone()
    }

    /// Sets them.
    pub(crate) fn set_names(&self, names: Vec<Problem>) {
        self.parts().names = names;
    }

    /// As a source; `None` where nothing is wrong.
    pub(crate) fn sourced(&self) -> Option<Sourced> {
        let parts = self.parts();
        let Parts { faults, restart, names, .. } = &*parts;
        report(CONFIGURATION, [faults.as_slice(), restart.as_slice(), names.as_slice()].concat())
    }

    /// Puts it among the sources, or takes it away.
    pub(crate) fn publish(&self, intake: &Intake) {
        match (self.sourced(), SourceName::new(CONFIGURATION)) {
            (None, Ok(name)) => intake.remove(&name),
            (source, _) => intake.add(source),
        }
    }
}

/// The rows of the store that do not count; `None` where all do.
pub(crate) fn of_store(rejected: &[RejectedRow]) -> Option<Sourced> {
    let problem = |row: &RejectedRow| {
        let message =
            format!("the row was {} outside of Toolkeep and does not count", row.rejection);
        let fix = "restore the data directory from a backup, or see `toolkeep store list`";
        Problem::new(row.key.as_str(), message).fix(fix)
    };
    let mut problems: Vec<_> = rejected.iter().take(NAMED).map(problem).collect();
    if let Some(more) = rejected.len().checked_sub(NAMED).filter(|more| *more > 0) {
        problems.push(Problem::new("store.db", format!("{more} more rows do not count")));
    }
    report(STORE, problems)
}

/// The cache of modules' manifests that does not answer; `None` where it does.
pub(crate) fn of_cache(outage: Option<&String>) -> Option<Sourced> {
    let problem = |error: &String| {
        let message = format!("the cache of modules' manifests does not answer: {error}");
        let fix = "see that Redis runs and that `redis` is right; calls go on without it";
        Problem::new("redis", message).fix(fix)
    };
    report(CACHE, outage.map(problem).into_iter().collect())
}

fn report(name: &'static str, problems: Vec<Problem>) -> Option<Sourced> {
    let source = SourceName::new(name).ok().filter(|_| !problems.is_empty())?;
    let mut hasher = DefaultHasher::new();
    format!("{problems:?}").hash(&mut hasher);
    Some(Sourced {
        source: Arc::new(Report { name: source, problems }),
        kind: name,
        trust: Trust::Full,
        durability: None,
        poll: None,
        fingerprint: hasher.finish(),
    })
}

/// Reports each change of the store's rejected rows; never ends.
pub(crate) async fn follow(mut rejected: watch::Receiver<Vec<RejectedRow>>, intake: &Intake) {
    while rejected.changed().await.is_ok() {
        let source = of_store(&rejected.borrow_and_update());
        match (source, SourceName::new(STORE)) {
            (None, Ok(name)) => intake.remove(&name),
            (source, _) => intake.add(source),
        }
    }
    std::future::pending::<()>().await;
}

/// Reports each outage of the cache of modules' manifests, and its end; never ends.
pub(crate) async fn follow_cache(mut outage: watch::Receiver<Option<String>>, intake: &Intake) {
    // What was so before this began counts too.
    outage.mark_changed();
    while outage.changed().await.is_ok() {
        let source = of_cache(outage.borrow_and_update().as_ref());
        match (source, SourceName::new(CACHE)) {
            (None, Ok(name)) => intake.remove(&name),
            (source, _) => intake.add(source),
        }
    }
    std::future::pending::<()>().await;
}

impl Source for Report {
    fn name(&self) -> &SourceName {
        &self.name
    }
    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        let problems = self.problems.clone();
        Box::pin(async { Ok(Listing { problems, ..Listing::default() }) })
    }
    fn changed(&self, _: Revision) -> Boxed<'_, Revision> {
        Box::pin(std::future::pending())
    }
    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}
