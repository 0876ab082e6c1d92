//! Fixture of a server: a catalog from one source, in-memory ledger and store, a listener on port
//! 0.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gateway::{ApprovalComponents, ApprovalSettings, Gateway, GatewayOptions};
use identity::{NewKey, Principal, Right};
use intake::{ConfiguredSource, PinRegistry, SourceSupervisor, SupervisorTimeouts};
use ledger::FileLedger;
use server::HttpService;
use server_core::tool_search::SearchLearning;
use server_core::{
    CallCounters, EventLog, Hosts, KeyStore, ServerComponents, SteadyClock, TokenIssuers,
};
use server_mcp::McpServerState;
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::ledger::MemoryLedger;
use testkit::source::{MockListing, MockSource};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::ledger::{RecordInspector, RecordKind};
use tool::{
    CallId, Clock as _, DeferMode, IntentRecord, Offer, Org, OutcomeRecord, PermissionLevel,
    RefusalRecord, Secret, SourceListing, SourceTrust, Store,
};

use super::Client;

/// Options of a test server.
#[derive(Default)]
pub(crate) struct ServerSetup {
    pub(crate) offers: Vec<Offer>,
    pub(crate) hosts: Hosts,
    pub(crate) options: GatewayOptions,
    pub(crate) anonymous_level: Option<PermissionLevel>,
    /// The ledger that ships, where the one in memory is not enough.
    pub(crate) file_ledger: Option<Arc<FileLedger>>,
    /// Kind of its source, if not the tests' own.
    pub(crate) kind: Option<&'static str>,
    /// Server information of its source.
    pub(crate) source_about: Option<tool::Json>,
    /// The installation's secret.
    pub(crate) secret: Option<Secret>,
    /// Whether calls can be held, and how.
    pub(crate) approval_settings: Option<ApprovalSettings>,
    /// How callers learn about pending calls.
    pub(crate) pending_call_options: server_core::PendingCallOptions,
    /// How MCP clients get tools.
    pub(crate) listing_options: server_core::ListingOptions,
    /// First listing of its source, if it is an error.
    pub(crate) first_answer: Option<MockListing>,
    /// How far its source is trusted, with pins that hold it to that; without pins where absent.
    pub(crate) trust: Option<SourceTrust>,
    /// Store of large results.
    pub(crate) artifacts: Option<Arc<dyn tool::artifact::ArtifactStore>>,
    /// Store of its keys, if not its own.
    pub(crate) store: Option<Arc<dyn Store>>,
    /// The registry of nodes' tools.
    pub(crate) node_registry: Option<Arc<dyn tool::node_registry::NodeRegistry>>,
    pub(crate) programs: Option<Arc<dyn server_core::ProgramRunner>>,
    /// Vectors of tools by a sentence model.
    pub(crate) sentence_vectors: Option<Arc<server_core::tool_search::SentenceVectors>>,
    /// Store in which tool search learns as the listing options say; without it nothing is learned.
    pub(crate) learning_store: Option<Arc<dyn Store>>,
    /// Sends events to webhooks.
    pub(crate) webhooks: Option<Arc<dyn server_core::webhook::WebhookTransport>>,
    /// The catalogue.
    pub(crate) package_registry: Option<Arc<dyn tool::tool_packages::ToolPackageStore>>,
    /// The plugins.
    pub(crate) plugins: Option<Arc<dyn tool::plugin_admin::PluginAdmin>>,
    pub(crate) configuration: Option<Arc<dyn server_core::configuration_file::ConfigurationFile>>,
}

pub(crate) struct FixtureServer {
    pub(crate) address: SocketAddr,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) ledger: Arc<MemoryLedger>,
    pub(crate) source: Arc<MockSource>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) intake: Arc<SourceSupervisor>,
    pub(crate) state: McpServerState,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: TaskTracker,
    pub(crate) keys: Arc<KeyStore>,
    pub(crate) issuers: Arc<TokenIssuers>,
}

/// The first answer of its source: these offers, unless it is an error.
fn first_answer(
    answer: Option<MockListing>,
    (offers, initialize_result): (Vec<Offer>, Option<tool::Json>),
) -> MockListing {
    let listing = SourceListing { offers, initialize_result, ..SourceListing::default() };
    answer.unwrap_or(MockListing::Listing(listing))
}

async fn load_keys(
    store: Option<Arc<dyn Store>>,
    anonymous: Option<PermissionLevel>,
) -> Arc<KeyStore> {
    let store = store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
    let (keys, problems) = KeyStore::load(store, anonymous).await.unwrap();
    assert_eq!(problems, []);
    Arc::new(keys)
}

impl FixtureServer {
    /// With the tools of [`super::tools`].
    pub(crate) async fn new() -> Self {
        Self::with_offers(super::tools::standard_offers()).await
    }

    pub(crate) async fn with_offers(offers: Vec<Offer>) -> Self {
        Self::with_setup(ServerSetup { offers, ..ServerSetup::default() }).await
    }

    pub(crate) async fn with_setup(setup: ServerSetup) -> Self {
        let (ledger, clock) = (Arc::new(MemoryLedger::default()), Arc::new(FakeClock::default()));
        let learning = search_learning(&setup, &clock);
        let inspector = setup.file_ledger.clone().map(|files| files as Arc<dyn RecordInspector>);
        let (kept, counts) = (ledger_ports(setup.file_ledger, &ledger), CallCounters::default());
        let first = first_answer(setup.first_answer, (setup.offers, setup.source_about));
        let source = Arc::new(MockSource::new("s", first));
        let intake = start_intake(&source, (setup.kind, setup.trust), (&ledger, &clock)).await;
        let keys = load_keys(setup.store, setup.anonymous_level).await;
        let gateway = Gateway::new(gateway::GatewayComponents {
            current: intake.current_snapshot(),
            ledger: counts.wrap_ledger(kept.0),
            clock: Arc::clone(&clock) as _,
            credentials: Arc::new(testkit::context::NoopContext),
            mac_key: Secret::new("key"),
            approvals: setup.approval_settings.map(|it| in_memory_approvals(&keys, it)),
            options: setup.options,
        });
        let gateway = Arc::new(with_ports(gateway, setup.artifacts, learning.as_ref()));
        let issuers = Arc::new(TokenIssuers::default());
        let state = McpServerState::new(ServerComponents {
            gateway: Arc::clone(&gateway),
            intake: Arc::clone(&intake),
            keys: Arc::clone(&keys),
            issuers: Arc::clone(&issuers),
            records: kept.1,
            record_inspector: inspector,
            call_counters: counts,
            events: EventLog::new(Arc::new(SteadyClock::new(Arc::clone(&clock) as _))),
            clock: Arc::new(SteadyClock::new(Arc::clone(&clock) as _)),
            max_body_bytes: server_core::DEFAULT_MAX_BODY_BYTES,
            pending_call_options: setup.pending_call_options,
            webhooks: setup.webhooks,
            listing_options: setup.listing_options,
            node_registry: setup.node_registry,
            programs: setup.programs,
            sentence_vectors: setup.sentence_vectors,
            search_learning: learning,
            package_registry: setup.package_registry,
            plugins: setup.plugins,
            configuration: setup.configuration,
            installation_secret: setup.secret.unwrap_or_else(|| Secret::new("key")),
            allowed_hosts: setup.hosts,
        });
        let (address, stop, serving) =
            serve_on_free_port(HttpService::new(&state).with_console(&state)).await;
        Self {
            address,
            gateway,
            ledger,
            source,
            clock,
            intake,
            state,
            stop,
            serving,
            keys,
            issuers,
        }
    }

    /// Adds a module that is unavailable.
    pub(crate) async fn with_unavailable_module(error: tool::SourceError) -> Self {
        let setup = ServerSetup {
            kind: Some("module"),
            first_answer: Some(MockListing::Error(error)),
            ..ServerSetup::default()
        };
        Self::with_setup(setup).await
    }

    /// Restricts users without a persona to these sources.
    pub(crate) async fn set_guest_sources(&self, modules: Option<&[&str]>) {
        let modules = modules.map(|all| all.iter().map(|&module| module.to_owned()).collect());
        self.keys.set_guest_sources(modules).await.unwrap();
    }

    /// Adds an MCP server beside its source; resolves when the catalog has it.
    pub(crate) async fn add_mcp_source(&self, name: &str, offers: Vec<Offer>) -> Arc<MockSource> {
        self.add_mcp_source_with(name, offers, DeferMode::Auto).await
    }

    /// Adds an MCP server whose tools lists defer as configured; resolves when the catalog has it.
    pub(crate) async fn add_mcp_source_with(
        &self,
        name: &str,
        offers: Vec<Offer>,
        defer_mode: DeferMode,
    ) -> Arc<MockSource> {
        let source = Arc::new(MockSource::new(name, source_answer(offers)));
        self.intake.add_source(Some(ConfiguredSource {
            source: Arc::clone(&source) as Arc<dyn tool::Source>,
            kind: "mcp",
            trust: SourceTrust::FirstUse,
            durability: None,
            defer_mode,
            poll_interval: None,
            fingerprint: 1,
        }));
        let is_listed = || {
            let catalog = self.intake.catalog();
            let found = catalog.find_source(name);
            found.is_some_and(|source| source.state == catalog::SourceState::Current)
        };
        let mut numbers = self.intake.subscribe_versions();
        within_a_minute(numbers.wait_for(|_| is_listed())).await.unwrap();
        source
    }

    /// Its source lists these from now on; resolves when the catalog has them.
    pub(crate) async fn replace_offers(&self, offers: Vec<Offer>) {
        let mut numbers = self.intake.subscribe_versions();
        let before = *numbers.borrow_and_update();
        self.source.set_answer(source_answer(offers));
        within_a_minute(numbers.wait_for(|number| *number > before)).await.unwrap();
    }

    /// A client without a key.
    pub(crate) fn keyless_client(&self) -> Client {
        Client::new(self.address)
    }

    /// A client with a new key for an agent.
    pub(crate) async fn agent_client(&self, subject: &str, level: PermissionLevel) -> Client {
        self.client_with(|key| (key.subject, key.level) = (subject.to_owned(), level)).await
    }

    /// A client with a person's key that has every right.
    pub(crate) async fn owner_client(&self) -> Client {
        self.client_with(|key| {
            (key.subject, key.level, key.is_agent) =
                ("owner".to_owned(), PermissionLevel::Owner, false);
            key.rights = Right::ALL.iter().copied().collect();
        })
        .await
    }

    pub(crate) async fn client_with(&self, change: impl FnOnce(&mut NewKey)) -> Client {
        let mut key = NewKey::for_user(KeyStore::generate_key_id().unwrap(), "ann");
        change(&mut key);
        let (secret, record) = self.keys.create_key(key, self.clock.wall_now()).await.unwrap();
        self.keyless_client().with_key(secret.expose(), record.id.as_str())
    }

    /// Another key, with the principal that it makes.
    pub(crate) async fn client_and_principal(&self, mut key: NewKey) -> (Client, Principal) {
        for hand in 0..key.delegations.len() {
            let id = KeyStore::generate_key_id().unwrap();
            let delegations = key.delegations[..hand].to_vec();
            key.delegations[hand].delegated_by = id.to_string();
            let above = NewKey { id, delegations, ..key.clone() };
            self.keys.create_key(above, self.clock.wall_now()).await.unwrap();
        }
        let (secret, record) = self.keys.create_key(key, self.clock.wall_now()).await.unwrap();
        let principal =
            self.keys.key_ring().verify_key(Some(secret.expose()), self.clock.wall_now()).unwrap();
        (self.keyless_client().with_key(secret.expose(), record.id.as_str()), principal)
    }

    pub(crate) async fn revoke_key(&self, client: &Client) {
        self.keys.revoke_key(&client.key_id, self.clock.wall_now()).await.unwrap();
    }

    pub(crate) fn recorded_intents(&self) -> Vec<IntentRecord> {
        self.record_bodies(RecordKind::Intent)
    }

    pub(crate) fn recorded_ends(&self) -> Vec<OutcomeRecord> {
        self.record_bodies(RecordKind::Outcome)
    }

    /// Ends with the calls that they are of.
    pub(crate) fn call_outcomes(&self) -> Vec<(CallId, OutcomeRecord)> {
        let frames =
            self.ledger.all_records().into_iter().filter(|f| f.kind == RecordKind::Outcome);
        frames.map(|frame| (frame.call_id.unwrap(), frame.body.decode().unwrap())).collect()
    }

    pub(crate) fn recorded_refusals(&self) -> Vec<RefusalRecord> {
        self.record_bodies(RecordKind::Refusal)
    }

    fn record_bodies<T: for<'de> serde::Deserialize<'de>>(&self, kind: RecordKind) -> Vec<T> {
        let frames = self.ledger.all_records().into_iter().filter(|frame| frame.kind == kind);
        frames.map(|frame| frame.body.decode().unwrap()).collect()
    }

    /// Waits until no call runs. The server takes none from here on.
    pub(crate) async fn wait_until_drained(&self) {
        within_a_minute(self.gateway.drain_calls()).await;
    }
}

impl Drop for FixtureServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A listing of these offers.
fn source_answer(offers: Vec<Offer>) -> MockListing {
    MockListing::Listing(SourceListing { offers, ..SourceListing::default() })
}

/// Stores approvals in memory, without notifications.
fn in_memory_approvals(keys: &Arc<KeyStore>, patience: ApprovalSettings) -> ApprovalComponents {
    ApprovalComponents {
        store: Arc::new(MemoryStore::new()),
        principal_resolver: Arc::clone(keys) as _,
        observer: Arc::new(gateway::NoApprovalPorts),
        settings: patience,
    }
}

/// Enables pins, with the trust level of the source.
async fn start_intake(
    source: &Arc<MockSource>,
    (kind, trust): (Option<&'static str>, Option<SourceTrust>),
    (ledger, clock): (&Arc<MemoryLedger>, &Arc<FakeClock>),
) -> Arc<SourceSupervisor> {
    let sourced = ConfiguredSource {
        source: Arc::clone(source) as Arc<dyn tool::Source>,
        kind: kind.unwrap_or("test"),
        trust: trust.unwrap_or(SourceTrust::Full),
        durability: None,
        defer_mode: DeferMode::Auto,
        poll_interval: None,
        fingerprint: 1,
    };
    let (sources, times, time) =
        (vec![sourced], SupervisorTimeouts::default(), Arc::clone(clock) as _);
    let intake = if trust.is_some() {
        let (store, events) = (Arc::new(MemoryStore::new()) as _, Arc::clone(ledger) as _);
        let pins =
            Arc::new(PinRegistry::new(Org::default(), store, events, Arc::clone(clock) as _));
        SourceSupervisor::start_with_pins(Org::default(), pins, sources, times, time)
    } else {
        SourceSupervisor::start_sources(Org::default(), sources, times, time)
    };
    intake.wait_until_listed().await;
    Arc::new(intake)
}

/// Learns in the store of the setup, if there is one.
fn search_learning(setup: &ServerSetup, clock: &Arc<FakeClock>) -> Option<Arc<SearchLearning>> {
    let (store, key) = (Arc::clone(setup.learning_store.as_ref()?), Secret::new("key"));
    let clock = Arc::clone(clock) as _;
    Some(Arc::new(SearchLearning::new(&setup.listing_options, store, clock, &key)))
}

/// Adds a store of large results and an observer of calls, if there are any.
fn with_ports(
    mut gateway: Gateway,
    store: Option<Arc<dyn tool::artifact::ArtifactStore>>,
    learning: Option<&Arc<SearchLearning>>,
) -> Gateway {
    if let Some(store) = store {
        gateway = gateway.with_artifacts(store);
    }
    if let Some(learning) = learning {
        gateway = gateway.with_call_observer(Arc::clone(learning) as _);
    }
    gateway
}

/// The record, to write and to read.
fn ledger_ports(
    files: Option<Arc<FileLedger>>,
    memory: &Arc<MemoryLedger>,
) -> (Arc<dyn tool::Ledger>, Arc<dyn tool::ledger::RecordReader>) {
    match files {
        Some(files) => (Arc::clone(&files) as _, files),
        None => (Arc::clone(memory) as _, Arc::clone(memory) as _),
    }
}

/// Serves on a port of its own.
pub(crate) async fn serve_on_free_port(
    front: impl Into<HttpService>,
) -> (SocketAddr, CancellationToken, TaskTracker) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let (front, until) = (front.into(), stop.clone());
    // On the test's own runtime, whose clock it may hold.
    let serving = async move {
        server::serve_http(
            listener,
            front,
            &server::ConnectionWorkers::on_current_runtime(),
            until,
        )
        .await;
    };
    drop(tasks.spawn(serving));
    tasks.close();
    (address, stop, tasks)
}

/// Panics if it takes longer than a minute, by the test's clock.
pub(crate) async fn within_a_minute<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("it comes within a minute")
}
