//! Sources to catalog.
//!
//! Each source is listed by a task of its own, so that one that hangs, lies, floods or dies delays
//! nobody. What it listed last is kept while it is away. The catalog is swapped whole. This crate
//! knows no kind of source and decides nothing about callers.

mod keeper;
mod supervise;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use catalog::Catalog;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tool::{Clock, Durability, Org, Source, SourceName, Trust};

use keeper::{Keeper, Wires};

/// A source as the operator configured it.
#[derive(Debug, Clone)]
pub struct Sourced {
    /// The source.
    pub source: Arc<dyn Source>,
    /// `tool_file`, `module`, `mcp`, `builtin`, …
    pub kind: &'static str,
    /// How far it is trusted.
    pub trust: Trust,
    /// How sure the records of its calls must be; `None` where their effects decide.
    pub durability: Option<Durability>,
    /// How often to list it although it says nothing; `None` for sources that tell.
    pub poll: Option<Duration>,
    /// Changes when its configuration does; a source whose fingerprint stays is left running.
    pub fingerprint: u64,
}

/// Times of the supervision.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The longest a listing may take.
    pub list: Duration,
    /// Waits after failures, one after the other; the last one repeats.
    pub retry: [Duration; 4],
    /// The longest a source may take to close.
    pub close: Duration,
}

impl Default for Times {
    /// 35 s for a listing; tries again after 5, 10, 20 and 30 s (spec 0), then every 30 s; 10 s to close.
    fn default() -> Self {
        let retry = [5, 10, 20, 30].map(Duration::from_secs);
        Self { list: Duration::from_secs(35), retry, close: Duration::from_secs(10) }
    }
}

/// Keeps the catalog up to date.
#[derive(Debug)]
pub struct Intake {
    catalog: Arc<ArcSwap<Catalog>>,
    keeper: Arc<Keeper>,
    number: watch::Receiver<u64>,
    tasks: TaskTracker,
    times: Times,
    clock: Arc<dyn Clock>,
}

impl Intake {
    /// Starts listing `sources`; returns at once. Their order is that of the configuration, which
    /// settles who keeps a name.
    pub fn start(org: Org, sources: Vec<Sourced>, times: Times, clock: Arc<dyn Clock>) -> Self {
        let catalog = Arc::new(ArcSwap::from_pointee(Catalog::default()));
        let (numbers, number) = watch::channel(0);
        let keeper = Arc::new(Keeper::new(org, Arc::clone(&catalog), numbers));
        let intake = Self { catalog, keeper, number, tasks: TaskTracker::new(), times, clock };
        intake.set(sources);
        intake
    }

    /// The catalog now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// The cell the catalog is swapped in, for those who read it at every call.
    pub fn cell(&self) -> Arc<ArcSwap<Catalog>> {
        Arc::clone(&self.catalog)
    }

    /// Changes with the catalog's number.
    pub fn numbers(&self) -> watch::Receiver<u64> {
        self.number.clone()
    }

    /// Takes a new configuration: sources that stayed as they were go on, the others are closed, the
    /// new ones start.
    pub fn set(&self, sources: Vec<Sourced>) {
        self.set_and(sources, || ());
    }

    /// The same, with `between` run when what goes is gone and nothing of what comes is there yet: the
    /// moment for rules that belong to the new configuration.
    pub fn set_and(&self, sources: Vec<Sourced>, between: impl FnOnce()) {
        let new = self.keeper.set(sources);
        between();
        self.begin(new);
    }

    /// Adds a source behind the others, or puts it in the place of one with its name.
    pub fn add(&self, source: Option<Sourced>) {
        self.begin(source.and_then(|source| self.keeper.add(source)));
    }

    fn begin(&self, new: impl IntoIterator<Item = (Sourced, Wires)>) {
        for (sourced, wires) in new {
            let (keeper, times) = (Arc::clone(&self.keeper), self.times);
            let (clock, tasks) = (Arc::clone(&self.clock), self.tasks.clone());
            let supervised = supervise::Supervised { sourced, wires, keeper, times, clock, tasks };
            drop(self.tasks.spawn(supervised.run()));
        }
    }

    /// Lists all sources anew, or one, and waits until that is done.
    ///
    /// # Errors
    /// The name, where there is no such source.
    pub async fn refresh(&self, only: Option<&SourceName>) -> Result<(), SourceName> {
        let asked = self.keeper.ask(only);
        if let Some(name) = only.filter(|_| asked.is_empty()) {
            return Err(name.clone());
        }
        for (mut done, number) in asked {
            // A source that was taken away meanwhile has nothing left to wait for.
            drop(done.wait_for(|done| *done >= number).await.map(|done| *done));
        }
        Ok(())
    }

    /// A source that runs.
    pub fn source(&self, name: &SourceName) -> Option<Arc<dyn Source>> {
        self.keeper.source(name)
    }

    /// Resolves when every source was listed once, or failed once.
    pub async fn settled(&self) {
        for mut done in self.keeper.listed() {
            drop(done.wait_for(|done| *done > 0).await.map(|done| *done));
        }
    }

    /// Ends all sources; resolves when their children are gone.
    pub async fn close(&self) {
        self.set(Vec::new());
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests;
