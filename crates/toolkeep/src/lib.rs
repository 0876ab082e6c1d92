//! Puts the program together: the only place that names concrete types.

mod assembly;
mod checkpoints;
mod clocks;
mod cluster;
mod configuration;
mod credentials;
mod door;
mod early;
mod endpoint;
mod files;
mod held;
mod internals;
mod issuers;
mod listen;
mod manifests;
mod names;
mod places;
mod plugged;
mod programs;
mod readiness;
mod redaction;
mod reports;
mod review;
mod sources;
mod unusable;
mod webhook;

use std::sync::Arc;

use gateway::Gateway;
use intake::Intake;
use ledger::FileLedger;
use server_core::Keys;
use server_mcp::McpDoors;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::ledger::Events as _;
use tool::{Boxed, Clock as _, Store};

use assembly::{Storage, assemble};
use checkpoints::Sealing;
use cli::first_keys::{first_keys, revocation};
use cli_core::data::{FirstKey, KeyState};
use cli_core::failure::{Exit, Failure};
use cli_core::wiring::{Review, Running, Start, Wiring};
use clocks::Clocks;
use config::{Config, Environment};
use credentials::Configured;
use door::RouterDoor;
use early::Early;
use listen::{Beside, bind, offers, serve, settled, workers};
use manifests::Kept;
use sources::Workshop;

/// The real parts.
#[derive(Debug)]
pub struct Real;

impl Wiring for Real {
    fn start(&self, start: Start) -> Boxed<'_, Result<Running, Failure>> {
        let data = start.held.data().clone();
        Box::pin(async move { run(start).await.map_err(|failure| data.on_full_disk(failure)) })
    }

    fn review<'a>(
        &'a self,
        config: &'a Config,
        environment: &'a Arc<Environment>,
    ) -> Boxed<'a, Result<Review, Failure>> {
        Box::pin(review::review(config, environment))
    }
}

/// Everything that runs behind the doors.
struct App {
    doors: McpDoors,
    intake: Arc<Intake>,
    gateway: Arc<Gateway>,
    ledger: Arc<FileLedger>,
    credentials: Arc<Configured>,
    workshop: Workshop,
    manifests: Kept,
    keys: Arc<Keys>,
    hooks: Arc<held::Hooks>,
    seals: Sealing,
}

fn fault<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| Failure::new(Exit::NoServer, format!("{what}: {error}"))
}

async fn run(start: Start) -> Result<Running, Failure> {
    let workers = workers(start.listen)?;
    let http = start.config.server.http;
    let early = Early::begin(http);
    let listener = bind(start.listen.then_some(start.config.listen), "--listen").await?;
    let beside = Beside::bind(&start.beside).await?;
    let listening = beside.addresses();
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let (store, record_key) = places::store(&start).await?;
    let rejected = store.rejected();
    let store: Arc<dyn Store> = store;
    let clocks = Clocks::open(store.as_ref(), start.accept_clock).await?;
    let keys = Arc::new(read_keys(Arc::clone(&store), &start).await?);
    let now = clocks.steady.wall();
    let changes = first_keys(&start.held, &keys, now, start.make_keys).await?;
    let state = |key| (key, start.held.data().key_state(&keys.ring(), key, now));
    let states = [FirstKey::Owner, FirstKey::Agent].map(state).into_iter();
    let invalid = states.filter(|(_, state)| *state != KeyState::Valid).collect();
    let storage = Storage { keys, store, record_key, rejected: rejected.clone() };
    let app = assemble(&start, early, storage, &clocks).await?;
    app.intake.add(reports::of_store(&rejected.borrow()));
    for id in &changes.revoked {
        app.ledger.note(&revocation(now, id)).map_err(fault("the record"))?;
    }
    restored(&app).await?;
    let offers = offers(&app.doors, &start.stop);
    let door = Arc::new(RouterDoor::of(&app));
    if start.settles {
        settled(&app.intake).await;
        names::refresh(&app.workshop.report, &app.intake).await;
    }
    let stop = start.stop.clone();
    let tasks = TaskTracker::new();
    let mut said = start.config.policy_said;
    let news = config::watch(start.setting, &start.reading, &tasks, stop.clone());
    tend(&tasks, app.doors.clone(), stop.clone());
    let held = start.held;
    let ended = Box::pin(async move {
        tokio::select! {
            () = serve(&app, (listener, beside), http, &workers, stop) => {}
            () = configuration::follow(&app, news, &mut said) => {}
            () = names::follow(&app) => {}
            () = app.manifests.manifests.tend() => {}
            () = app.gateway.tend() => {}
            () = clocks.steady.tend(app.keys.store()) => {}
            () = app.hooks.run() => {}
            () = app.seals.tend() => {}
            () = app.workshop.cluster.follow(&app.intake) => {}
            () = app.workshop.programs.tend() => {}
            () = app.workshop.plugged.follow() => {}
            () = reports::follow(rejected, &app.intake) => {}
            () = reports::follow_cache(app.manifests.manifests.outage(), &app.intake) => {}
        }
        app.end().await;
        // Sources may have something that runs there: theirs comes to its end first.
        drop(workers);
        drop(held);
        Ok(())
    });
    Ok(Running { address, beside: listening, door, offers, keys: changes, invalid, ended })
}

/// Takes up what waited when the process before ended.
async fn restored(app: &App) -> Result<(), Failure> {
    held::restored(&app.gateway).await?;
    programs::restored(&app.workshop.programs).await
}

/// Looks after the doors, by itself: a command without a server never waits for anything else.
fn tend(tasks: &TaskTracker, doors: McpDoors, stopped: CancellationToken) {
    drop(tasks.spawn(async move {
        tokio::select! {
            () = doors.tend() => {}
            () = stopped.cancelled() => {}
        }
    }));
}

async fn read_keys(store: Arc<dyn Store>, start: &Start) -> Result<Keys, Failure> {
    let (keys, problems) = Keys::read(store, start.open).await.map_err(fault("the keys"))?;
    for problem in problems {
        tracing::warn!(place = problem.place, "{}", problem.message);
    }
    Ok(keys)
}

impl App {
    /// Ends: calls first, then sources with their children, then the record.
    async fn end(self) {
        self.workshop.programs.drain().await;
        self.gateway.drain().await;
        self.intake.close().await;
        self.workshop.plugged.close().await;
        let ledger = self.ledger;
        // Waits for the last sync.
        drop(tokio::task::spawn_blocking(move || ledger.close()).await);
        self.seals.end().await;
    }
}
