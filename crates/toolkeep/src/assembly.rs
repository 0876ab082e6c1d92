//! Puts the application together in stages: each is a type that needs the one before, and nothing is set later.

use std::sync::Arc;

use ::programs::{PendingCalls, Programs};
use builtins::Cages;
use egress::Egress;
use gateway::{Gateway, Options};
use intake::{Intake, Times};
use ledger::FileLedger;
use ledger::signed::RecordKey;
use server_core::{Counts, Hosts, Issuers, Keys, Parts};
use server_mcp::McpDoors;
use store::{RejectedRow, Sealed};
use tokio::sync::watch;
use tool::artefact::Artefacts;
use tool::ledger::Records;
use tool::{Secret, Store};

use super::checkpoints::Sealing;
use super::clocks::Clocks;
use super::cluster::{self, Cluster};
use super::credentials::Configured;
use super::early::Early;
use super::manifests::Kept;
use super::plugged::Plugged;
use super::programs::{self, ProgramParts};
use super::sources::{self, Workshop};
use super::{App, fault, files, held, issuers, places};
use cli_core::failure::Failure;
use cli_core::launch::launcher;
use cli_core::wiring::Start;
use config::{Config, ServerConfig};

async fn once(keys: &Keys, name: &str, what: &'static str) -> Result<Secret, Failure> {
    keys.once(name).await.map_err(|error| fault(what)(error.message()))
}

/// The first stage: what is stored, and who has a key.
pub(super) struct Storage {
    pub(super) keys: Arc<Keys>,
    pub(super) store: Arc<dyn Store>,
    pub(super) record_key: RecordKey,
    /// Rows of the store that do not count.
    pub(super) rejected: watch::Receiver<Vec<RejectedRow>>,
}

/// The second stage: what the gateway and the sources both stand on.
pub(super) struct Foundation {
    pub(super) keys: Arc<Keys>,
    store: Arc<dyn Store>,
    ledger: Arc<FileLedger>,
    pub(super) egress: Egress,
    /// Without sources yet.
    intake: Arc<Intake>,
    seals: Sealing,
    cages: Arc<Cages>,
    artefacts: Option<Arc<dyn Artefacts>>,
}

/// Parts of the store whose rows are sealed.
struct SealedStores {
    pending_calls: Sealed,
    programs: Sealed,
    tokens: Arc<Sealed>,
}

/// The third stage: what runs calls.
struct CallParts {
    gateway: Arc<Gateway>,
    hooks: Arc<held::Hooks>,
    programs: Arc<Programs>,
    credentials: Arc<Configured>,
    counts: Counts,
}

/// Goes through all stages.
pub(super) async fn assemble(
    start: &Start,
    early: Early,
    storage: Storage,
    clocks: &Clocks,
) -> Result<App, Failure> {
    let config = &start.config;
    let guests = config.default_guest_modules.clone();
    storage.keys.set_guests(guests).await.map_err(fault("the keys"))?;
    let mac_key = once(&storage.keys, "secret/records", "the records' key").await?;
    let sealed = SealedStores::open(&storage.keys, &storage.store).await?;
    let tokens = Arc::clone(&sealed.tokens);
    let rejected = storage.rejected.clone();
    let foundation = Foundation::open(start, early, storage, clocks).await?;
    let calls = CallParts::new(start, &foundation, sealed, &mac_key, clocks)?;
    let (workshop, manifests) =
        workshop(start, &foundation, &calls.programs, tokens, rejected, clocks).await?;
    let Foundation { keys, store, ledger, intake, seals, .. } = foundation;
    let CallParts { gateway, hooks, programs, credentials, counts } = calls;
    workshop.report.set_active(config, &start.faults, Vec::new());
    intake.set_with(workshop.build(config), &config.policy);
    let doors = McpDoors::new(Parts {
        gateway: Arc::clone(&gateway),
        intake: Arc::clone(&intake),
        keys: Arc::clone(&keys),
        issuers: believed(config, &workshop),
        records: Arc::clone(&ledger) as Arc<dyn Records>,
        counts,
        clock: clocks.steady(),
        hosts: hosts(config),
        max_body: config.server.max_body,
        notices: held::notices(config),
        nodes: Some(workshop.cluster.registry()),
        programs: Some(programs::door(&programs)),
        catalogue: Some(places::catalogue(start, &store).await?),
        plugins: Some(Arc::clone(&workshop.plugged) as Arc<dyn tool::plugin::Plugins>),
        secret: mac_key,
    });
    Ok(App { doors, intake, gateway, ledger, credentials, workshop, manifests, keys, hooks, seals })
}

impl SealedStores {
    async fn open(keys: &Keys, store: &Arc<dyn Store>) -> Result<Self, Failure> {
        let secret = once(keys, "secret/tokens", "the tokens' key").await?;
        let sealed = |what| Sealed::new(Arc::clone(store), &secret, what);
        Ok(Self {
            pending_calls: sealed("held calls"),
            programs: sealed("programs"),
            tokens: Arc::new(sealed("upstream tokens")),
        })
    }
}

impl Foundation {
    async fn open(
        start: &Start,
        early: Early,
        storage: Storage,
        clocks: &Clocks,
    ) -> Result<Self, Failure> {
        let Storage { keys, store, record_key, .. } = storage;
        let (config, clock) = (&start.config, &clocks.machine);
        let records = (start.held.data().records(), config.record_file);
        let ledger = places::ledger(records, clock).await?;
        let egress = early.done().await?;
        let (at, seals) = places::pins(start, (&ledger, &store), record_key, clock);
        let intake = Arc::new(Intake::pinned(at, Vec::new(), Times::default(), Arc::clone(clock)));
        let place = files::place(&own_files(start));
        let cages = Arc::new(Cages::new(launcher(), place, config.server.cage));
        let artefacts = places::artefacts(start, clock);
        Ok(Self { keys, store, ledger, egress, intake, seals, cages, artefacts })
    }

    fn records(&self) -> Arc<dyn Records> {
        Arc::clone(&self.ledger) as Arc<dyn Records>
    }
}

impl CallParts {
    fn new(
        start: &Start,
        foundation: &Foundation,
        sealed: SealedStores,
        mac_key: &Secret,
        clocks: &Clocks,
    ) -> Result<Self, Failure> {
        let config = &start.config;
        let pending_calls = PendingCalls::new();
        let (holding, hooks) = held::holding(
            config,
            foundation,
            sealed.pending_calls,
            &clocks.machine,
            &pending_calls,
        )?;
        let (credentials, counts) = (configured(config), Counts::default());
        let gateway = Gateway::new(gateway::Parts {
            current: foundation.intake.current(),
            ledger: counts.over(Arc::clone(&foundation.ledger) as Arc<dyn tool::Ledger>),
            clock: clocks.steady(),
            credentials: Arc::clone(&credentials) as Arc<dyn tool::executor::Credentials>,
            mac_key: mac_key.clone(),
            holding: Some(holding),
            options: options(config),
        });
        let gateway = Arc::new(keeping(gateway, foundation.artefacts.clone()));
        let programs = programs::programs(
            start,
            ProgramParts {
                gateway: &gateway,
                records: foundation.records(),
                pending_calls,
                store: sealed.programs,
                keys: &foundation.keys,
                cages: &foundation.cages,
                clock: clocks.steady(),
            },
        );
        Ok(Self { gateway, hooks, programs, credentials, counts })
    }
}

fn own_files(start: &Start) -> files::Own {
    let data = start.held.data();
    files::Own { data: data.path().to_owned(), work: data.work() }
}

/// The fourth stage: what sources are made with.
async fn workshop(
    start: &Start,
    foundation: &Foundation,
    programs: &Arc<Programs>,
    tokens: Arc<Sealed>,
    rejected: watch::Receiver<Vec<RejectedRow>>,
    clocks: &Clocks,
) -> Result<(Workshop, Kept), Failure> {
    let Foundation { keys, store, egress, intake, cages, artefacts, .. } = foundation;
    let (config, clock, data) = (&start.config, &clocks.machine, start.held.data());
    let at = (keys, Arc::clone(store), Arc::clone(clock));
    let authority = cluster::authority(keys, config.nodes.authority_file.as_deref(), clock).await;
    let said = (&config.nodes, config.redis.as_ref());
    let cluster = Cluster::open(said, at, (egress, authority)).await?;
    let plugged = Plugged::open(config, data.path(), launcher(), egress, clock, intake).await?;
    let kept =
        Kept::new(config, (keys, Arc::clone(store)), egress.clone(), Arc::clone(clock)).await?;
    let language = builtins_llm::all(&data.models(), cages).await;
    if let Some(problem) = &language.problem {
        tracing::warn!(place = problem.place, "{}", problem.message);
    }
    let workshop = Workshop {
        launcher: launcher(),
        egress: egress.clone(),
        files: own_files(start),
        cages: Arc::clone(cages),
        language,
        manifests: Arc::clone(&kept.manifests),
        clock: Arc::clone(clock),
        environment: Arc::clone(&start.setting.environment),
        records: foundation.records(),
        report: Arc::default(),
        rejected,
        tokens,
        artefacts: artefacts.clone(),
        cluster,
        programs: Arc::clone(programs),
        plugged,
    };
    Ok((workshop, kept))
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

fn hosts(config: &Config) -> Hosts {
    let ServerConfig { allowed_hosts, allowed_origins, .. } = config.server.clone();
    Hosts { names: allowed_hosts, origins: allowed_origins }
}

fn options(config: &Config) -> Options {
    let bounds = config.limits.bounds;
    Options { result_bytes: config.limits.result_bytes, bounds, ..Options::default() }
}
