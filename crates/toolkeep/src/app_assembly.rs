//! Builds the application in stages. Each stage is a type that requires the previous one.

use std::sync::Arc;

use ::programs::{PendingCalls, Programs};
use builtins::SandboxProvider;
use egress::EgressClient;
use gateway::{Gateway, GatewayOptions};
use intake::{SourceSupervisor, SupervisorTimeouts};
use ledger::FileLedger;
use ledger::signed_checkpoint::CheckpointSigningKey;
use server_core::configuration_file::ConfigurationFile;
use server_core::tool_search::SearchLearning;
use server_core::{CallCounters, EventLog, Hosts, KeyStore, ServerComponents, TokenIssuers};
use server_mcp::McpServerState;
use store::{EncryptedStore, RejectedRow};
use tokio::sync::watch;
use tool::artifact::ArtifactStore;
use tool::ledger::{AuditLog, RecordInspector, RecordReader};
use tool::plugin_admin::PluginAdmin;
use tool::{Org, Secret, Store};

use super::config_updates::toolset_definitions;
use super::configuration_file::LoadedFile;
use super::encrypted_stores::{EncryptedStores, get_or_create_secret};
use super::manifest_storage::ManifestStorage;
use super::node_cluster::{self, NodeCluster};
use super::observed_audit_log::ObservedAuditLog;
use super::plugin_sources::PluginSources;
use super::program_runtime::{self, ProgramComponents};
use super::record_maintenance::RecordMaintenance;
use super::search_learning::{attach_learning, build_search_learning};
use super::sentence_search::sentence_vectors;
use super::server_clocks::ClockPair;
use super::source_factory::{self, SourceFactory};
use super::startup_tasks::StartupTasks;
use super::upstream_credentials::UpstreamCredentials;
use super::webhook_transport::EgressWebhooks;
use super::{App, data_storage, file_roots, issuer_connection, pending_approvals, startup_error};
use cli_core::command_error::CommandError;
use cli_core::process_launcher::child_launcher;
use cli_core::server_launcher::LaunchOptions;
use config::{Config, ServerConfig};

/// First stage: the store, the keys, the record and its key.
pub(super) struct AppStorage {
    pub(super) keys: Arc<KeyStore>,
    pub(super) store: Arc<dyn Store>,
    pub(super) record_key: CheckpointSigningKey,
    pub(super) ledger: Arc<FileLedger>,
    /// Rows of the store that were rejected.
    pub(super) rejected: watch::Receiver<Vec<RejectedRow>>,
}

/// Second stage: components that the gateway and the sources share.
pub(super) struct CoreComponents {
    pub(super) keys: Arc<KeyStore>,
    store: Arc<dyn Store>,
    ledger: Arc<FileLedger>,
    pub(super) egress: EgressClient,
    /// The events of this server.
    pub(super) events: Arc<EventLog>,
    /// Supervisor of the sources; it starts without any.
    intake: Arc<SourceSupervisor>,
    record_maintenance: RecordMaintenance,
    sandboxes: Arc<SandboxProvider>,
    artifacts: Option<Arc<dyn ArtifactStore>>,
}

/// Third stage: the gateway and everything that runs calls.
struct CallComponents {
    gateway: Arc<Gateway>,
    approval_notifier: Arc<pending_approvals::ApprovalNotifier>,
    programs: Arc<Programs>,
    credentials: Arc<UpstreamCredentials>,
    call_counters: CallCounters,
    tokens: Arc<EncryptedStore>,
    task_store: Arc<EncryptedStore>,
    search_learning: Arc<SearchLearning>,
}

/// Applies the configuration to the key store.
async fn set_key_options(keys: &KeyStore, config: &Config) -> Result<(), CommandError> {
    keys.set_ended_key_retention(config.server.ended_key_retention);
    let guest_sources = config.default_guest_modules.clone();
    keys.set_guest_sources(guest_sources).await.map_err(startup_error("the keys"))
}

/// Builds the application through all stages.
pub(super) async fn build_app(
    options: &LaunchOptions,
    startup_tasks: StartupTasks,
    storage: AppStorage,
    clocks: &ClockPair,
) -> Result<App, CommandError> {
    let config = &options.config;
    set_key_options(&storage.keys, config).await?;
    let mac_key = get_or_create_secret(&storage.keys, "secret/records", "the records' key").await?;
    let encrypted_stores = EncryptedStores::open_stores(&storage.keys, &storage.store).await?;
    let rejected = storage.rejected.clone();
    let foundation =
        CoreComponents::open_foundation(options, startup_tasks, storage, clocks).await?;
    let call_components =
        CallComponents::new(options, &foundation, encrypted_stores, &mac_key, clocks)?;
    let (source_factory, manifest_storage) =
        build_source_factory(options, &foundation, &call_components, rejected, clocks).await?;
    source_factory.config_report.set_active(config, &options.config_errors, Vec::new());
    let sources = source_factory.build_sources(config);
    foundation.intake.set_sources_and_policy(sources, &config.policy);
    foundation.intake.set_configured_toolsets(toolset_definitions(config));
    let parts = (&foundation, &call_components, &source_factory);
    let state = build_state(options, parts, mac_key, clocks).await?;
    let CoreComponents { keys, ledger, intake, record_maintenance, .. } = foundation;
    let CallComponents { gateway, approval_notifier, credentials, task_store, .. } =
        call_components;
    Ok(App {
        state,
        task_store,
        intake,
        gateway,
        ledger,
        credentials,
        source_factory,
        manifest_storage,
        keys,
        approval_notifier,
        record_maintenance,
    })
}

/// Builds the state that all interfaces share.
async fn build_state(
    options: &LaunchOptions,
    (foundation, call_components, source_factory): (
        &CoreComponents,
        &CallComponents,
        &Arc<SourceFactory>,
    ),
    installation_secret: Secret,
    clocks: &ClockPair,
) -> Result<McpServerState, CommandError> {
    let config = &options.config;
    let CoreComponents { keys, store, ledger, intake, events, egress, .. } = foundation;
    Ok(McpServerState::new(ServerComponents {
        gateway: Arc::clone(&call_components.gateway),
        intake: Arc::clone(intake),
        keys: Arc::clone(keys),
        issuers: build_issuers(config, source_factory),
        records: Arc::clone(ledger) as Arc<dyn RecordReader>,
        record_inspector: Some(Arc::clone(ledger) as Arc<dyn RecordInspector>),
        call_counters: call_components.call_counters.clone(),
        clock: clocks.as_clock(),
        events: Arc::clone(events),
        webhooks: Some(EgressWebhooks::new(egress, Vec::new())),
        allowed_hosts: allowed_hosts(config),
        max_body_bytes: config.server.max_body_bytes,
        pending_call_options: pending_approvals::pending_call_options(config),
        listing_options: config.server.search.to_options(),
        node_registry: Some(source_factory.node_cluster.registry()),
        sentence_vectors: sentence_vectors(&source_factory.language_tools, store),
        search_learning: Some(Arc::clone(&call_components.search_learning)),
        programs: Some(program_runtime::program_adapter(&call_components.programs)),
        package_registry: Some(data_storage::open_tool_packages(options, store).await?),
        plugins: Some(Arc::clone(&source_factory.plugin_sources) as Arc<dyn PluginAdmin>),
        configuration: Some(configuration_file(options, source_factory, ledger, clocks)),
        installation_secret,
    }))
}

impl CoreComponents {
    async fn open_foundation(
        start: &LaunchOptions,
        startup_tasks: StartupTasks,
        storage: AppStorage,
        clocks: &ClockPair,
    ) -> Result<Self, CommandError> {
        let AppStorage { keys, store, record_key, ledger, .. } = storage;
        let (config, clock) = (&start.config, &clocks.system_clock);
        let egress = startup_tasks.join_tasks().await?;
        let events = EventLog::new(Arc::clone(clock));
        let audit_log = ObservedAuditLog::wrap(&ledger, &events);
        let pins = data_storage::open_pins(audit_log, &store, &record_key, clock).await?;
        let record_maintenance =
            data_storage::start_record_maintenance(start, &ledger, record_key, clock);
        let intake = Arc::new(SourceSupervisor::start_with_pins(
            Org::default(),
            pins,
            Vec::new(),
            SupervisorTimeouts::default(),
            Arc::clone(clock),
        ));
        let work_dir = file_roots::create_work_dir(&server_dirs(start));
        let sandboxes = Arc::new(SandboxProvider::new(
            child_launcher(),
            work_dir,
            config.server.min_sandbox_level,
        ));
        let artifacts = data_storage::open_artifact_store(start, clock);
        Ok(Self {
            keys,
            store,
            ledger,
            egress,
            events,
            intake,
            record_maintenance,
            sandboxes,
            artifacts,
        })
    }

    fn records(&self) -> Arc<dyn RecordReader> {
        Arc::clone(&self.ledger) as Arc<dyn RecordReader>
    }
}

impl CallComponents {
    fn new(
        start: &LaunchOptions,
        foundation: &CoreComponents,
        encrypted_stores: EncryptedStores,
        mac_key: &Secret,
        clocks: &ClockPair,
    ) -> Result<Self, CommandError> {
        let config = &start.config;
        let pending_calls = PendingCalls::new();
        let (approval_components, approval_notifier) = pending_approvals::build_approvals(
            config,
            foundation,
            encrypted_stores.pending_calls,
            &clocks.system_clock,
            &pending_calls,
        )?;
        let (credentials, call_counters) = (build_credentials(config), CallCounters::default());
        let gateway = Gateway::new(gateway::GatewayComponents {
            current: foundation.intake.current_snapshot(),
            ledger: call_counters
                .wrap_ledger(Arc::clone(&foundation.ledger) as Arc<dyn tool::Ledger>),
            clock: clocks.as_clock(),
            credentials: Arc::clone(&credentials) as Arc<dyn tool::executor::CredentialProvider>,
            mac_key: mac_key.clone(),
            approvals: Some(approval_components),
            options: gateway_options(config),
        });
        let gateway = with_artifacts(gateway, foundation.artifacts.clone());
        let search_learning =
            build_search_learning(config, encrypted_stores.search_learning, (clocks, mac_key));
        let gateway = Arc::new(attach_learning(gateway, &search_learning));
        let programs = program_runtime::build_programs(
            start,
            ProgramComponents {
                gateway: &gateway,
                records: foundation.records(),
                pending_calls,
                store: encrypted_stores.programs,
                keys: &foundation.keys,
                sandboxes: &foundation.sandboxes,
                events: Arc::clone(&foundation.events),
                clock: clocks.as_clock(),
            },
        );
        let EncryptedStores { tokens, tasks: task_store, .. } = encrypted_stores;
        Ok(Self {
            gateway,
            approval_notifier,
            programs,
            credentials,
            call_counters,
            tokens,
            task_store,
            search_learning,
        })
    }
}

fn server_dirs(start: &LaunchOptions) -> file_roots::ServerPaths {
    let data = start.data_dir_lock.dir();
    file_roots::ServerPaths { data_dir: data.path().to_owned(), work_dir: data.work_dir() }
}

/// Fourth stage: builds the factory of sources.
async fn build_source_factory(
    start: &LaunchOptions,
    foundation: &CoreComponents,
    call_components: &CallComponents,
    rejected: watch::Receiver<Vec<RejectedRow>>,
    clocks: &ClockPair,
) -> Result<(Arc<SourceFactory>, ManifestStorage), CommandError> {
    let CoreComponents { keys, store, egress, intake, sandboxes, artifacts, .. } = foundation;
    let (config, clock, data) = (&start.config, &clocks.system_clock, start.data_dir_lock.dir());
    let components = (keys, Arc::clone(store), Arc::clone(clock));
    let authority =
        node_cluster::load_authority(keys, config.nodes.authority_file.as_deref(), clock).await;
    let registry_config = (&config.nodes, config.redis_url.as_ref());
    let cluster =
        NodeCluster::open_registry(registry_config, components, (egress, authority)).await?;
    let plugin_sources =
        PluginSources::open_plugins(config, data.path(), child_launcher(), egress, clock, intake)
            .await?;
    let manifest_storage =
        ManifestStorage::new(config, keys, Arc::clone(store), egress.clone(), Arc::clone(clock))
            .await?;
    let language_tools = builtins_llm::language_tools(&data.models_dir(), sandboxes).await;
    if let Some(problem) = &language_tools.problem {
        tracing::warn!(place = problem.location, "{}", problem.message);
    }
    let workshop = SourceFactory {
        launcher: child_launcher(),
        egress: egress.clone(),
        server_dirs: server_dirs(start),
        sandboxes: Arc::clone(sandboxes),
        language_tools,
        manifest_cache: Arc::clone(&manifest_storage.manifest_cache),
        clock: Arc::clone(clock),
        environment: Arc::clone(&start.load_options.environment),
        records: foundation.records(),
        config_report: Arc::default(),
        rejected_rows: rejected,
        token_store: Arc::clone(&call_components.tokens) as Arc<dyn Store>,
        artifacts: artifacts.clone(),
        node_cluster: cluster,
        programs: Arc::clone(&call_components.programs),
        plugin_sources,
    };
    Ok((Arc::new(workshop), manifest_storage))
}

/// The configuration file, for the interfaces that read and change it.
fn configuration_file(
    start: &LaunchOptions,
    factory: &Arc<SourceFactory>,
    ledger: &Arc<FileLedger>,
    clocks: &ClockPair,
) -> Arc<dyn ConfigurationFile> {
    Arc::new(LoadedFile {
        options: start.load_options.clone(),
        allows_local_sources: start.config.server.allows_local_sources,
        factory: Arc::clone(factory),
        audit_log: Arc::clone(ledger) as Arc<dyn AuditLog>,
        clock: clocks.as_clock(),
    })
}

fn build_credentials(config: &Config) -> Arc<UpstreamCredentials> {
    let credentials = UpstreamCredentials::default();
    credentials.replace_credentials(source_factory::source_credentials(config));
    Arc::new(credentials)
}

fn build_issuers(config: &Config, workshop: &SourceFactory) -> Arc<TokenIssuers> {
    let issuers = TokenIssuers::default();
    issuers.replace(issuer_connection::trusted_issuers(config, workshop));
    Arc::new(issuers)
}

fn with_artifacts(gateway: Gateway, artifacts: Option<Arc<dyn ArtifactStore>>) -> Gateway {
    match artifacts {
        Some(artefacts) => gateway.with_artifacts(artefacts),
        None => gateway,
    }
}

fn allowed_hosts(config: &Config) -> Hosts {
    let ServerConfig { allowed_hosts: mut names, allowed_origins: origins, public_url, .. } =
        config.server.clone();
    let host = public_url.as_deref().and_then(|url| url.parse::<http::Uri>().ok());
    names.extend(host.as_ref().and_then(http::Uri::host).map(str::to_owned));
    Hosts { names, origins, public_url }
}

fn gateway_options(config: &Config) -> GatewayOptions {
    let bounds = config.limits.concurrency;
    GatewayOptions {
        max_result_bytes: config.limits.max_result_bytes,
        concurrency: bounds,
        ..GatewayOptions::default()
    }
}
