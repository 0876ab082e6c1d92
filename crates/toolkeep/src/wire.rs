//! Puts the program together: the only place that names concrete types.

mod credentials;
mod sources;
mod unusable;

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use gateway::{Bounds, Gateway, Options};
use guard::process::Launcher;
use identity::NewKey;
use intake::{Intake, Times};
use ledger::{FileLedger, RealDisk};
use policy::Policy;
use server::{Doors, Hosts, Keys, Parts};
use store::SqliteStore;
use tokio::sync::watch;
use tool::store::Expect;
use tool::{Clock, Level, Org, Problem, Store};

use crate::clock::SystemClock;
use crate::config::Config;
use crate::data::Held;
use credentials::Configured;
use sources::Workshop;

/// Stands in the store once the first keys were made.
const FIRST_KEYS: &str = "setup/first_keys";

/// What the command line adds to the configuration.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Lets callers without a key in, at this level.
    pub open: Option<Level>,
    /// The program to start again as a supervisor of children, with its first arguments.
    pub launcher: Launcher,
}

/// Everything that runs, from sources to doors.
#[derive(Debug)]
pub struct App {
    doors: Doors,
    intake: Arc<Intake>,
    gateway: Arc<Gateway>,
    keys: Arc<Keys>,
    store: Arc<dyn Store>,
    ledger: Arc<FileLedger>,
    clock: Arc<dyn Clock>,
    credentials: Arc<Configured>,
    workshop: Workshop,
    /// What was found wrong at the start and does not keep it from running.
    pub problems: Vec<Problem>,
}

/// Why it could not be put together.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct StartError {
    /// The part.
    pub what: &'static str,
    /// What is wrong with it, and where.
    pub why: String,
}

fn fault<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> StartError {
    move |error| StartError { what, why: error.to_string() }
}

impl App {
    /// Opens the data directory's parts and starts the sources. The directory must be held by this
    /// process.
    ///
    /// # Errors
    /// Where the record or the store cannot be opened; a source never is a reason.
    pub async fn start(config: &Config, setup: Setup) -> Result<Self, StartError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let store = SqliteStore::open(config.data.join("store.db")).map_err(fault("the store"))?;
        let store: Arc<dyn Store> = Arc::new(store);
        let (keys, mut problems) =
            Keys::read(Arc::clone(&store), setup.open).await.map_err(fault("the keys"))?;
        let mac_key = keys.once("secret/records").await;
        let mac_key = mac_key.map_err(|error| fault("the records' key")(error.message()))?;
        let (ledger, recovery) = open_ledger(config.data.join("ledger"), &clock).await?;
        problems.extend(recovery);
        let workshop = Workshop::new(setup.launcher, Arc::clone(&clock)).map_err(fault("the egress"))?;
        let credentials = Arc::new(Configured::default());
        credentials.set(sources::secrets(config));
        let sources = workshop.build(config);
        let (times, org) = (Times::default(), Org::default());
        let intake = Arc::new(Intake::start(org, sources, times, Arc::clone(&clock)));
        let gateway = Arc::new(Gateway::new(gateway::Parts {
            catalog: intake.cell(),
            policy: Arc::new(ArcSwap::from_pointee(Policy::default())),
            ledger: Arc::clone(&ledger) as Arc<dyn tool::Ledger>,
            clock: Arc::clone(&clock),
            credentials: Arc::clone(&credentials) as Arc<dyn tool::executor::Credentials>,
            mac_key,
            options: options(config),
        }));
        let keys = Arc::new(keys);
        let doors = Doors::new(Parts {
            gateway: Arc::clone(&gateway),
            intake: Arc::clone(&intake),
            keys: Arc::clone(&keys),
            records: Arc::clone(&ledger) as Arc<dyn tool::ledger::Records>,
            clock: Arc::clone(&clock),
            hosts: Hosts {
                names: config.server.allowed_hosts.clone(),
                origins: config.server.allowed_origins.clone(),
            },
        });
        Ok(Self { doors, intake, gateway, keys, store, ledger, clock, credentials, workshop, problems })
    }

    /// All doors.
    pub fn router(&self) -> axum::Router {
        server::router(&self.doors)
    }

    /// Resolves when every source was listed once, or failed once.
    pub async fn settled(&self) {
        self.intake.settled().await;
    }

    /// Takes the sources of a new configuration. What listens and where data is kept stays as it was.
    pub fn apply(&self, config: &Config) {
        self.credentials.set(sources::secrets(config));
        self.intake.set(self.workshop.build(config));
    }

    /// The first keys of an installation: the owner's and his agent's, each in its file. Made once;
    /// a key file that was taken away since does not come back.
    ///
    /// # Errors
    /// Where the store or the disk says no.
    pub async fn first_keys(&self, held: &Held) -> Result<Vec<PathBuf>, StartError> {
        let made = self.store.get(FIRST_KEYS).await.map_err(fault("the first keys"))?;
        if made.is_some() {
            return Ok(Vec::new());
        }
        let id = || Keys::fresh_id().map_err(|error| fault("the first keys")(error.message()));
        let mut files = Vec::new();
        for (name, new) in [("owner.key", NewKey::owner(id()?)), ("agent.key", NewKey::agent(id()?))] {
            let created = self.keys.create(new, self.clock.wall()).await;
            let (key, _) = created.map_err(|error| fault("the first keys")(error.message()))?;
            files.push(held.keep_key(name, &key).map_err(fault("the first keys"))?);
        }
        let done = self.store.put(FIRST_KEYS, Expect::Absent, Some(Bytes::from_static(b"{}")));
        done.await.map_err(fault("the first keys"))?;
        Ok(files)
    }

    /// Tools in the catalog.
    pub fn tools(&self) -> usize {
        self.intake.catalog().tools().len()
    }

    /// Takes each new configuration as it comes; never ends.
    pub async fn follow(&self, news: Option<watch::Receiver<Config>>) {
        if let Some(mut news) = news {
            while news.changed().await.is_ok() {
                let config = news.borrow_and_update().clone();
                self.apply(&config);
            }
        }
        std::future::pending().await
    }

    /// Ends: calls first, then sources with their children, then the record.
    pub async fn stop(self) {
        self.gateway.drain().await;
        self.intake.close().await;
        drop(self.ledger);
    }
}

fn options(config: &Config) -> Options {
    let bounds = Bounds {
        calls: config.limits.calls,
        per_key: config.limits.calls_per_key,
        ..Bounds::default()
    };
    Options { result_bytes: config.limits.result_bytes, bounds, ..Options::default() }
}

/// Scanning the record takes as long as the disk does, so not on a thread that others wait for.
async fn open_ledger(
    dir: PathBuf,
    clock: &Arc<dyn Clock>,
) -> Result<(Arc<FileLedger>, Vec<Problem>), StartError> {
    let clock = Arc::clone(clock);
    let opened = tokio::task::spawn_blocking(move || {
        FileLedger::open(&dir, Arc::new(RealDisk), clock, ledger::Options::default())
    });
    let (ledger, recovery) =
        opened.await.map_err(fault("the record"))?.map_err(fault("the record"))?;
    let problems = recovery.problems.iter().map(|p| Problem::new("the record", p.to_string()));
    Ok((Arc::new(ledger), problems.collect()))
}
