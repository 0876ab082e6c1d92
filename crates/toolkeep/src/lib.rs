//! Puts the program together: the only place that names concrete types.

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

use builtins::Cages;
use egress::Egress;
use gateway::{Gateway, Options};
use intake::{Intake, Pins, Sourced, Times};
use ledger::FileLedger;
use ledger::signed::RecordKey;
use policy::Policy;
use server_core::{Counts, Hosts, Issuers, Keys, Parts};
use server_mcp::McpDoors;
use store::Sealed;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::artefact::Artefacts;
use tool::ledger::Events as _;
use tool::{Boxed, Clock, Org, Secret, Store};

use checkpoints::Sealing;
use cli_core::data::{FirstKey, KeyState, revocation};
use cli_core::failure::{Exit, Failure};
use cli_core::launch::launcher;
use cli_core::wiring::{Review, Running, Start, Wiring};
use clocks::Clocks;
use cluster::Cluster;
use config::{Config, Environment, ServerConfig};
use credentials::Configured;
use door::RouterDoor;
use early::Early;
use listen::{Beside, bind, offers, serve, settled, workers};
use manifests::Kept;
use plugged::Plugged;
use sources::{Ways, Workshop};

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
    let early = Early::begin();
    let listener = bind(start.listen.then_some(start.config.listen), "--listen").await?;
    let beside = Beside::bind(&start.beside).await?;
    let listening = beside.addresses();
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let (store, record_key) = places::store(&start).await?;
    let rejected = store.rejected();
    let store: Arc<dyn Store> = store;
    let clocks = Clocks::open(store.as_ref(), start.accept_clock).await?;
    let keys = read_keys(Arc::clone(&store), &start).await?;
    let now = clocks.steady.wall();
    let changes = start.held.first_keys(&keys, now, start.make_keys).await?;
    let state = |key| (key, start.held.data().key_state(&keys.ring(), key, now));
    let states = [FirstKey::Owner, FirstKey::Agent].map(state).into_iter();
    let invalid = states.filter(|(_, state)| *state != KeyState::Valid).collect();
    let app = assemble(&start, early, (keys, store, record_key), &clocks).await?;
    app.intake.add(reports::of_store(&rejected.borrow()));
    drop(app.workshop.rejected.set(rejected.clone()));
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
            () = serve(&app, (listener, beside), &workers, stop) => {}
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

async fn once(keys: &Keys, name: &str, what: &'static str) -> Result<Secret, Failure> {
    keys.once(name).await.map_err(|error| fault(what)(error.message()))
}

/// The sources, supervised, under the rules that belong to them.
fn intake(
    at: (Org, Arc<Pins>),
    (sources, rules): (Vec<Sourced>, &Policy),
    clock: &Arc<dyn Clock>,
) -> Arc<Intake> {
    let intake = Intake::pinned(at, Vec::new(), Times::default(), Arc::clone(clock));
    intake.set_with(sources, rules);
    Arc::new(intake)
}

async fn assemble(
    start: &Start,
    early: Early,
    (keys, store, record_key): (Keys, Arc<dyn Store>, RecordKey),
    clocks: &Clocks,
) -> Result<App, Failure> {
    let (config, clock) = (&start.config, Arc::clone(&clocks.machine));
    keys.set_guests(config.default_guest_modules.clone()).await.map_err(fault("the keys"))?;
    let mac_key = once(&keys, "secret/records", "the records' key").await?;
    let ledger = places::ledger((start.held.data().records(), config.record_file), &clock).await?;
    let egress = early.done().await?;
    let keys = Arc::new(keys);
    let (ways, manifests, sealed) = ways(start, (&keys, &store), egress, clocks).await?;
    let (holding, hooks) = held::holding(config, &keys, (sealed, &ways), &clock)?;
    let artefacts = places::artefacts(start, &clock);
    let environment = Arc::clone(&start.setting.environment);
    let records = Arc::clone(&ledger) as Arc<dyn tool::ledger::Records>;
    let kept = (Arc::clone(&clock), artefacts.clone());
    let workshop = Workshop::new(launcher(), ways, environment, kept, Arc::clone(&records));
    let credentials = configured(config);
    let (at, seals) = places::pins(start, (&ledger, &store), record_key, &clock);
    workshop.report.set_active(config, &start.faults, Vec::new());
    let sources = workshop.build(config);
    let intake = intake(at, (sources, &config.policy), &clock);
    let counts = Counts::default();
    let gateway = Gateway::new(gateway::Parts {
        current: intake.current(),
        ledger: counts.over(Arc::clone(&ledger) as Arc<dyn tool::Ledger>),
        clock: clocks.steady(),
        credentials: Arc::clone(&credentials) as Arc<dyn tool::executor::Credentials>,
        mac_key: mac_key.clone(),
        holding: Some(holding),
        options: options(config),
    });
    let gateway = Arc::new(keeping(gateway, artefacts));
    let tokens = believed(config, &workshop);
    workshop.programs.over(&gateway, &records);
    workshop.plugged.listed_by(&intake);
    let doors = McpDoors::new(Parts {
        gateway: Arc::clone(&gateway),
        intake: Arc::clone(&intake),
        keys: Arc::clone(&keys),
        issuers: tokens,
        records,
        counts,
        clock: clocks.steady(),
        hosts: hosts(config),
        max_body: config.server.max_body,
        notices: held::notices(config),
        nodes: Some(workshop.cluster.registry()),
        programs: Some(programs::door(&workshop.programs)),
        catalogue: Some(places::catalogue(start, &store).await?),
        plugins: Some(Arc::clone(&workshop.plugged) as Arc<dyn tool::plugin::Plugins>),
        secret: mac_key,
    });
    Ok(App { doors, intake, gateway, ledger, credentials, workshop, manifests, keys, hooks, seals })
}

async fn ways(
    start: &Start,
    (keys, store): (&Arc<Keys>, &Arc<dyn Store>),
    egress: Egress,
    clocks: &Clocks,
) -> Result<(Ways, Kept, Sealed), Failure> {
    let clock = &clocks.machine;
    let tokens = once(keys, "secret/tokens", "the tokens' key").await?;
    let sealed = Sealed::new(Arc::clone(store), &tokens, "held calls");
    let kept_programs = Sealed::new(Arc::clone(store), &tokens, "programs");
    let tokens = Arc::new(Sealed::new(Arc::clone(store), &tokens, "upstream tokens"));
    let (store, clock) = (Arc::clone(store), Arc::clone(clock));
    let at = (keys, Arc::clone(&store), Arc::clone(&clock));
    let authority =
        cluster::authority(keys, start.config.nodes.authority_file.as_deref(), &clock).await;
    let said = (&start.config.nodes, start.config.redis.as_ref());
    let cluster = Cluster::open(said, at, (&egress, authority)).await?;
    let data = start.held.data();
    let plugged =
        Plugged::open(&start.config, (data.path(), launcher()), (&egress, &clock)).await?;
    let kept = Kept::new(&start.config, (keys, store), egress.clone(), clock).await?;
    let files = files::Own { data: data.path().to_owned(), work: data.work() };
    let cages = Arc::new(Cages::new(launcher(), files::place(&files), start.config.server.cage));
    let manifests = Arc::clone(&kept.manifests);
    let programs = programs::programs(start, (keys, kept_programs), &cages, clocks.steady());
    let language = builtins_llm::all(&data.models(), &cages).await;
    if let Some(problem) = &language.problem {
        tracing::warn!(place = problem.place, "{}", problem.message);
    }
    let ways =
        Ways { egress, files, cages, language, manifests, tokens, cluster, programs, plugged };
    Ok((ways, kept, sealed))
}

fn configured(config: &Config) -> Arc<Configured> {
    let credentials = Configured::default();
    credentials.set(sources::secrets(config));
    Arc::new(credentials)
}

fn believed(config: &Config, workshop: &Workshop) -> Arc<Issuers> {
    let tokens = Issuers::default();
    tokens.set(issuers::trusted(config, &workshop.egress));
    Arc::new(tokens)
}

fn keeping(gateway: Gateway, artefacts: Option<Arc<dyn Artefacts>>) -> Gateway {
    match artefacts {
        Some(artefacts) => gateway.with_artefacts(artefacts),
        None => gateway,
    }
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

fn hosts(config: &Config) -> Hosts {
    let ServerConfig { allowed_hosts, allowed_origins, .. } = config.server.clone();
    Hosts { names: allowed_hosts, origins: allowed_origins }
}

fn options(config: &Config) -> Options {
    let bounds = config.limits.bounds;
    Options { result_bytes: config.limits.result_bytes, bounds, ..Options::default() }
}
