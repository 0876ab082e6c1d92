//! The task of one source: lists it, retries with backoff, waits for changes, closes it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use catalog::Shelf;
use futures_util::FutureExt as _;
use tokio::time::{sleep, timeout};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tool::source::SourceFault;
use tool::{Clock, Listing, Problem, Revision, SourceError, SourceName};

use crate::failure_log::{FailureLog, Told};
use crate::keeper::{FIRST, Keeper, Wires};
use crate::pins::Looked;
use crate::{Sourced, Times};

/// Number of tools from which compilation runs on a blocking thread.
const MANY: usize = 500;
/// Maximum number of problems of one listing that are logged by name.
const NAMED: usize = 20;

pub(crate) struct Supervised {
    pub(crate) sourced: Sourced,
    pub(crate) wires: Wires,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) times: Times,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tasks: TaskTracker,
    /// First listing, made before the source is in the catalog.
    pub(crate) ready: Option<Ready>,
}

/// First listing of a source.
pub(crate) struct Ready {
    shelf: Shelf,
    looked: Looked,
    log: FailureLog,
}

impl Supervised {
    /// Lists the source for the first time, before it is in the catalog. `None` if that fails: it
    /// is retried once it is there.
    pub(crate) async fn prepare(&mut self) -> Option<Shelf> {
        let (listing, mut log) = (self.list().await.ok()?, FailureLog::default());
        let mut shelf = self.shelved(self.starting(), Ok(listing), &mut log).await;
        let looked = self.look(&mut shelf, true).await?;
        self.ready = Some(Ready { shelf: shelf.clone(), looked, log });
        Some(shelf)
    }

    fn starting(&self) -> Shelf {
        let Sourced { source, kind, trust, durability, .. } = &self.sourced;
        Shelf::starting(source.name().clone(), kind, *trust).durable(*durability)
    }

    pub(crate) async fn run(mut self) {
        self.supervise().await;
        let closing = timeout(self.times.close, self.sourced.source.close()).await;
        if closing.is_err() {
            tracing::warn!(source = %self.sourced.source.name(), "the source did not close in time");
        }
    }

    /// Lists the source until it is removed.
    async fn supervise(&mut self) {
        let (mut shelf, mut failures, mut log) = (self.starting(), 0, FailureLog::default());
        if let Some(ready) = self.ready.take() {
            (shelf, log) = (ready.shelf, ready.log);
            self.wires.done.send_replace(FIRST);
            if !self.wait(Some(shelf.revision), 0, ready.looked).await {
                return;
            }
        }
        loop {
            let asked = *self.wires.asked.borrow_and_update();
            let before = self.revision(shelf.revision);
            // Neither the catalog nor the shutdown waits for a source.
            let listing = tokio::select! {
                listing = self.list() => listing,
                () = taken_away(&self.wires) => return,
            };
            failures = if listing.is_ok() { 0 } else { failures + 1 };
            let fresh = listing.is_ok();
            shelf = self.shelved(shelf, listing, &mut log).await;
            let Some(looked) = self.look(&mut shelf, fresh).await else { return };
            let seen = if failures > 0 { before } else { Some(shelf.revision) };
            self.keeper.put(shelf.clone(), &self.wires.done).await;
            self.wires.done.send_replace(asked);
            if !self.wait(seen, failures, looked).await {
                return;
            }
        }
    }

    /// Returns the revision about to be listed, for a source that reports recovery; `last` is that
    /// of the last successful listing.
    fn revision(&self, last: Revision) -> Option<Revision> {
        let source = &self.sourced.source;
        let tells = source.tells_when_mended();
        tells.then(|| source.changed(last).now_or_never().unwrap_or(last))
    }

    /// Lists in a separate task, so that a panic in a source affects only that source.
    async fn list(&self) -> Result<Listing, SourceError> {
        let source = Arc::clone(&self.sourced.source);
        let listing = AbortOnDropHandle::new(self.tasks.spawn(async move { source.list().await }));
        let limit = self.sourced.source.list_timeout().unwrap_or(self.times.list);
        match timeout(limit, listing).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => {
                Err(self.fault(SourceFault::Crashed, "a fault in the source's code".into()))
            }
            Err(_) => {
                let said = format!("no listing within {} s", limit.as_secs());
                Err(self.fault(SourceFault::TimedOut, said))
            }
        }
    }

    /// Updates the pins from a listing before it is published; `None` if the source was removed.
    async fn look(&self, shelf: &mut Shelf, fresh: bool) -> Option<Looked> {
        let Some(pins) = self.keeper.pins.as_ref().filter(|_| fresh) else {
            return Some(Looked::Whole);
        };
        tokio::select! {
            looked = pins.look(shelf) => Some(looked),
            () = taken_away(&self.wires) => None,
        }
    }

    fn fault(&self, kind: SourceFault, message: String) -> SourceError {
        let problem = Problem::new(self.sourced.source.name().to_string(), message)
            .fix("look at the source's own log; it is tried again by itself");
        SourceError { kind, problem }
    }

    async fn shelved(
        &self,
        shelf: Shelf,
        listing: Result<Listing, SourceError>,
        log: &mut FailureLog,
    ) -> Shelf {
        let name = self.sourced.source.name();
        match listing {
            Ok(listing) => {
                let known = shelf.problems.clone();
                let shelf = self.compiled(shelf, listing).await;
                let (tools, problems) = (shelf.tools.len(), shelf.problems.len());
                if log.listed() {
                    tracing::info!(source = %name, tools, problems, "source listed");
                } else {
                    tracing::debug!(source = %name, tools, problems, "source listed again");
                }
                log_problems(name, &shelf.problems, &known);
                shelf
            }
            Err(error) => {
                let kept = shelf.tools.len();
                // It is retried for ever, and logged ever more rarely.
                match log.failed() {
                    Told::Now { since_last: 0 } => {
                        tracing::warn!(source = %name, %error, kept, "source not listed");
                    }
                    Told::Now { since_last } => {
                        tracing::warn!(source = %name, %error, kept, failures = since_last + 1, "source still not listed");
                    }
                    Told::Later => {
                        tracing::debug!(source = %name, %error, kept, "source still not listed");
                    }
                }
                shelf.failed(&error, self.clock.wall())
            }
        }
    }

    /// Hashing thousands of definitions would delay calls noticeably.
    async fn compiled(&self, shelf: Shelf, listing: Listing) -> Shelf {
        if listing.offers.len() < MANY {
            return shelf.listed(&self.keeper.org, listing);
        }
        let (last, org) = (shelf.clone(), self.keeper.org.clone());
        let compile = move || shelf.listed(&org, listing);
        // A panic in that code keeps the previous state.
        tokio::task::spawn_blocking(compile).await.unwrap_or(last)
    }

    /// Waits until the next listing is due; `false` if the source was removed. `seen` is the known
    /// revision, if a change of it triggers a listing.
    async fn wait(&mut self, seen: Option<Revision>, failures: usize, looked: Looked) -> bool {
        let failed = failures > 0;
        let retry = self.times.retry.get(failures.saturating_sub(1)).or(self.times.retry.last());
        let again =
            if failed || looked == Looked::Again { retry.copied() } else { self.sourced.poll };
        let source = Arc::clone(&self.sourced.source);
        tokio::select! {
            asked = self.wires.asked.changed() => {
                // An explicit request resets the source's own backoff.
                self.sourced.source.refresh();
                asked.is_ok()
            }
            // After a failure the revision is that of the last success and would differ for ever,
            // unless it was read before.
            () = changed(source.as_ref(), seen) => true,
            () = sleep_maybe(again) => true,
        }
    }
}

async fn changed(source: &dyn tool::Source, seen: Option<Revision>) {
    match seen {
        Some(seen) => drop(source.changed(seen).await),
        None => std::future::pending().await,
    }
}

async fn sleep_maybe(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait).await,
        None => std::future::pending().await,
    }
}

async fn taken_away(wires: &Wires) {
    let mut asked = wires.asked.clone();
    while asked.changed().await.is_ok() {}
}

/// Logs new problems of a source's tools by name.
fn log_problems(source: &SourceName, problems: &[Problem], known: &[Problem]) {
    let place = |problem: &'_ Problem| (problem.place.clone(), problem.message.clone());
    let known: HashSet<_> = known.iter().map(place).collect();
    let new = problems.iter().filter(|problem| !known.contains(&place(problem)));
    let (mut named, mut more) = (0, 0);
    for problem in new {
        if named == NAMED {
            more += 1;
            continue;
        }
        named += 1;
        let fix = problem.fix.as_deref().unwrap_or_default();
        tracing::error!(%source, place = problem.place, fix, "{}", problem.message);
    }
    if more > 0 {
        tracing::error!(%source, more, "more problems: `toolkeep source list` shows them");
    }
}
