//! Puts the program together: the only place that names concrete types.

mod configuration;
mod credentials;
mod door;
mod endpoint;
mod files;
mod internals;
mod manifests;
mod sources;
mod unusable;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use gateway::{Bounds, Gateway, Options};
use guard::egress::{Egress, EgressSettings};
use guard::process::Launcher;
use intake::{Intake, Times};
use ledger::{FileLedger, RealDisk};
use policy::Policy;
use server::{Counts, Doors, Front, Hosts, Keys, Parts, Workers};
use store::{Sealed, SqliteStore};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tool::{Boxed, Clock, Org, Store};
use upstreams::module::Manifests;

use crate::cli::LAUNCH;
use crate::cli::failure::{Exit, Failure};
use crate::cli::wiring::{Running, Start, Wiring};
use crate::clock::SystemClock;
use crate::config::{self, Config, Faults, Latest};
use credentials::Configured;
use door::RouterDoor;
use internals::Inside;
use sources::{Ways, Workshop};

/// How long a server that listens waits for its sources before it says so. One that takes longer comes
/// when it comes: it does not hold up the others.
const SETTLE: Duration = Duration::from_secs(1);

/// The real parts.
#[derive(Debug)]
pub struct Real;

impl Wiring for Real {
    fn start(&self, start: Start) -> Boxed<'_, Result<Running, Failure>> {
        Box::pin(run(start))
    }
}

/// Everything that runs behind the doors.
struct App {
    doors: Doors,
    intake: Arc<Intake>,
    gateway: Arc<Gateway>,
    ledger: Arc<FileLedger>,
    credentials: Arc<Configured>,
    policy: Arc<ArcSwap<Policy>>,
    workshop: Workshop,
    manifests: Arc<Manifests>,
    keys: Arc<Keys>,
}

fn fault<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| Failure::new(Exit::NoServer, format!("{what}: {error}"))
}

async fn run(start: Start) -> Result<Running, Failure> {
    let listener = if start.listen { Some(bind(&start).await?) } else { None };
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let workers = if start.listen { Workers::start() } else { Ok(Workers::here()) };
    let workers = workers.map_err(fault("the threads for connections"))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let store = SqliteStore::open(start.held.data().store()).map_err(fault("the store"))?;
    let store: Arc<dyn Store> = Arc::new(store);
    let keys = read_keys(Arc::clone(&store), &start).await?;
    let made = start.held.first_keys(&keys, clock.wall(), start.make_keys).await?;
    let app = assemble(&start, (keys, store), clock).await?;
    let door = Arc::new(RouterDoor(server::router(&app.doors)));
    match &listener {
        None => app.intake.settled().await,
        Some(_) => drop(tokio::time::timeout(SETTLE, app.intake.settled()).await),
    }
    let stop = start.stop.clone();
    let tasks = TaskTracker::new();
    let news = config::watch(start.setting, &start.reading, &tasks, stop.clone());
    let held = start.held;
    let ended = Box::pin(async move {
        let serving = async {
            match listener {
                Some(listener) => {
                    let front = Front::new(&app.doors);
                    let streams = async {
                        stop.cancelled().await;
                        app.doors.close();
                    };
                    let serve = server::listen(listener, front, &workers, stop.clone());
                    tokio::join!(serve, streams);
                }
                None => stop.cancelled().await,
            }
        };
        tokio::select! {
            () = serving => {}
            () = follow(&app, news) => {}
            () = app.manifests.tend() => {}
        }
        app.end().await;
        // Sources may have something that runs there: theirs comes to its end first.
        drop(workers);
        drop(held);
        Ok(())
    });
    Ok(Running { address, door, made, ended })
}

/// The configuration has refused addresses that others can reach, unless TLS ends in front of them.
async fn bind(start: &Start) -> Result<TcpListener, Failure> {
    let address = start.config.listen;
    TcpListener::bind(address).await.map_err(|error| {
        Failure::new(Exit::NoServer, format!("cannot listen on {address}: {error}"))
            .fix("choose another address with `--listen`; port 0 takes a free one")
    })
}

async fn read_keys(store: Arc<dyn Store>, start: &Start) -> Result<Keys, Failure> {
    let (keys, problems) = Keys::read(store, start.open).await.map_err(fault("the keys"))?;
    for problem in problems {
        tracing::warn!(place = problem.place, "{}", problem.message);
    }
    Ok(keys)
}

async fn assemble(
    start: &Start,
    (keys, store): (Keys, Arc<dyn Store>),
    clock: Arc<dyn Clock>,
) -> Result<App, Failure> {
    let config = &start.config;
    keys.set_guests(config.default_guest_modules.clone()).await.map_err(fault("the keys"))?;
    let mac_key = keys.once("secret/records").await;
    let mac_key = mac_key.map_err(|error| fault("the records' key")(error.message()))?;
    let ledger = open_ledger(start.held.data().records(), &clock).await?;
    let launcher = Launcher::this_binary(vec![LAUNCH.into()]);
    let egress = Egress::new(EgressSettings::default()).map_err(fault("the way out"))?;
    let tokens = keys.once("secret/tokens").await;
    let tokens = tokens.map_err(|error| fault("the tokens' key")(error.message()))?;
    let tokens = Arc::new(Sealed::new(Arc::clone(&store), &tokens, "upstream tokens"));
    let manifests = manifests::kept(config, (&keys, store), &egress, &clock).await?;
    let files = files::work(&start.held.data().work());
    let ways = Ways { egress, files, manifests: Arc::clone(&manifests), tokens };
    let workshop = Workshop::new(launcher, ways, Arc::clone(&clock));
    let credentials = Arc::new(Configured::default());
    credentials.set(sources::secrets(config));
    let sources = workshop.build(config, &start.faults);
    let intake =
        Arc::new(Intake::start(Org::default(), sources, Times::default(), Arc::clone(&clock)));
    let counts = Counts::default();
    let policy = Arc::new(ArcSwap::from_pointee(Policy::new(config.policy.clone())));
    let gateway = Arc::new(Gateway::new(gateway::Parts {
        catalog: intake.cell(),
        policy: Arc::clone(&policy),
        ledger: counts.over(Arc::clone(&ledger) as Arc<dyn tool::Ledger>),
        clock: Arc::clone(&clock),
        credentials: Arc::clone(&credentials) as Arc<dyn tool::executor::Credentials>,
        mac_key: mac_key.clone(),
        options: options(config),
    }));
    let keys = Arc::new(keys);
    let records = Arc::clone(&ledger) as Arc<dyn tool::ledger::Records>;
    let (own, behind) = (Arc::clone(&keys), Arc::downgrade(&gateway));
    let inside = Inside { keys: own, gateway: behind, records: Arc::clone(&records) };
    // It is set here and nowhere else.
    drop(workshop.inside.set(inside));
    let doors = Doors::new(Parts {
        gateway: Arc::clone(&gateway),
        intake: Arc::clone(&intake),
        keys: Arc::clone(&keys),
        records,
        counts,
        clock,
        hosts: Hosts {
            names: config.server.allowed_hosts.clone(),
            origins: config.server.allowed_origins.clone(),
        },
        max_body: config.server.max_body,
        secret: mac_key,
    });
    Ok(App { doors, intake, gateway, ledger, credentials, policy, workshop, manifests, keys })
}

/// Takes each new configuration as it comes, whole or not at all; never ends.
async fn follow(app: &App, mut news: watch::Receiver<Latest>) {
    while news.changed().await.is_ok() {
        let latest = Arc::clone(&news.borrow_and_update());
        match latest.as_ref() {
            Ok(config) => {
                tracing::info!("configuration taken");
                app.credentials.set(sources::secrets(config));
                let guests = config.default_guest_modules.clone();
                if let Err(error) = app.keys.set_guests(guests).await {
                    tracing::error!(%error, "the personas are not read anew");
                }
                let sources = app.workshop.build(config, &Faults::default());
                let rules = Arc::new(Policy::new(config.policy.clone()));
                // No tool of the old sources under the new rules, and none of the new under the old.
                app.intake.set_and(sources, || app.policy.store(rules));
            }
            Err(faults) => {
                tracing::warn!("configuration not taken, the last good one stays:\n{faults}");
                app.intake.add(configuration::told(faults));
            }
        }
    }
    std::future::pending::<()>().await;
}

impl App {
    /// Ends: calls first, then sources with their children, then the record.
    async fn end(self) {
        self.gateway.drain().await;
        self.intake.close().await;
        let ledger = self.ledger;
        // Waits for the last sync.
        drop(tokio::task::spawn_blocking(move || ledger.close()).await);
    }
}

fn options(config: &Config) -> Options {
    let bounds = Bounds {
        calls: config.limits.calls,
        per_key: config.limits.calls_per_key,
        per_source: config.limits.calls_per_source,
    };
    Options { result_bytes: config.limits.result_bytes, bounds, ..Options::default() }
}

/// Scanning the record takes as long as the disk does, so not on a thread that others wait for.
async fn open_ledger(dir: PathBuf, clock: &Arc<dyn Clock>) -> Result<Arc<FileLedger>, Failure> {
    let clock = Arc::clone(clock);
    let opened = tokio::task::spawn_blocking(move || {
        FileLedger::open(&dir, Arc::new(RealDisk), clock, ledger::Options::default())
    });
    let (ledger, recovery) =
        opened.await.map_err(fault("the record"))?.map_err(fault("the record"))?;
    for finding in &recovery.findings {
        tracing::error!("the record is damaged: {finding:?}; `toolkeep record verify` tells all");
    }
    if recovery.open_total > 0 {
        let calls = recovery.open_total;
        tracing::warn!(calls, "calls had begun and not ended when the process before did: unknown");
    }
    Ok(Arc::new(ledger))
}
