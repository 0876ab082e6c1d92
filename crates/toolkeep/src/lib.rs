//! Builds the application from its parts. This is the only crate that names all concrete types.

mod agent_guides;
mod app_assembly;
mod build_facts;
mod config_review;
mod config_updates;
mod configuration_file;
mod data_storage;
mod encrypted_stores;
mod file_roots;
mod in_process_transport;
mod internal_tools;
mod issuer_connection;
mod listeners;
mod manifest_storage;
mod mcp_endpoint;
mod node_cluster;
mod observed_audit_log;
mod pending_approvals;
mod plugin_sources;
mod problem_reports;
mod program_runtime;
mod record_maintenance;
mod search_learning;
mod sentence_search;
mod server_clocks;
mod source_factory;
mod source_readiness;
mod source_redaction;
mod startup_tasks;
mod stored_listings;
mod unmatched_names;
mod upstream_credentials;
mod webhook;
mod webhook_transport;

use std::sync::Arc;

use gateway::Gateway;
use intake::SourceSupervisor;
use ledger::FileLedger;
use server_core::KeyStore;
use server_mcp::McpServerState;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::ledger::AuditLog as _;
use tool::{BoxFuture, Clock as _, Store, WallTime};

use app_assembly::{AppStorage, build_app};
use cli::initial_keys::{create_initial_keys, revocation_event};
use cli_core::build_facts::BuildFacts;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::{FirstKey, KeyChanges, KeyState};
use cli_core::server_launcher::{ConfigReview, LaunchOptions, RunningServer, ServerLauncher};
use config::{Config, Environment};
use in_process_transport::InProcessTransport;
use listeners::{
    ExtraListeners, bind_listener, serve_listeners, start_workers, tool_server_factory,
    wait_for_sources,
};
use manifest_storage::ManifestStorage;
use record_maintenance::RecordMaintenance;
use server_clocks::ClockPair;
use source_factory::SourceFactory;
use startup_tasks::StartupTasks;
use upstream_credentials::UpstreamCredentials;

/// Launches servers and reviews configurations with the real components.
#[derive(Debug)]
pub struct AppLauncher;

impl ServerLauncher for AppLauncher {
    fn launch_server(
        &self,
        start: LaunchOptions,
    ) -> BoxFuture<'_, Result<RunningServer, CommandError>> {
        let data = start.data_dir_lock.dir().clone();
        Box::pin(async move {
            start_app(start).await.map_err(|failure| data.with_full_disk_notice(failure))
        })
    }

    fn review_config<'a>(
        &'a self,
        config: &'a Config,
        environment: &'a Arc<Environment>,
    ) -> BoxFuture<'a, Result<ConfigReview, CommandError>> {
        Box::pin(config_review::review_config(config, environment))
    }

    fn build_facts(&self) -> BuildFacts {
        build_facts::build_facts()
    }
}

/// Everything that runs behind the server's interfaces.
struct App {
    state: McpServerState,
    /// Encrypted rows of MCP tasks.
    task_store: Arc<dyn Store>,
    intake: Arc<SourceSupervisor>,
    gateway: Arc<Gateway>,
    ledger: Arc<FileLedger>,
    credentials: Arc<UpstreamCredentials>,
    source_factory: Arc<SourceFactory>,
    manifest_storage: ManifestStorage,
    keys: Arc<KeyStore>,
    approval_notifier: Arc<pending_approvals::ApprovalNotifier>,
    record_maintenance: RecordMaintenance,
}

fn startup_error<E: std::fmt::Display>(part: &'static str) -> impl FnOnce(E) -> CommandError {
    move |error| CommandError::new(ExitStatus::ServerUnavailable, format!("{part}: {error}"))
}

async fn start_app(start: LaunchOptions) -> Result<RunningServer, CommandError> {
    let workers = start_workers(start.listens)?;
    let server_config = start.config.server.clone();
    let has_console = server_config.has_console;
    let startup_tasks = StartupTasks::spawn_tasks(server_config.http_stack);
    let listener =
        bind_listener(start.listens.then_some(start.config.listen_address), "--listen").await?;
    let extra_listeners = ExtraListeners::bind_all(&start.extra_listeners).await?;
    let extra_addresses = extra_listeners.bound_addresses();
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let (store, record_key) = data_storage::open_store(&start).await?;
    let rejected = store.rejected_rows();
    let store: Arc<dyn Store> = store;
    let clocks = ClockPair::restore_from(store.as_ref(), start.accepts_clock).await?;
    let (keys, ledger) = open_keys_and_record(&store, &start, &clocks).await?;
    let now = clocks.steady_clock.wall_now();
    let key_changes =
        create_initial_keys(&start.data_dir_lock, &keys, now, start.recreates_keys).await?;
    let invalid_keys = find_invalid_keys(&start, &keys, now);
    let storage = AppStorage { keys, store, record_key, ledger, rejected: rejected.clone() };
    let app = build_app(&start, startup_tasks, storage, &clocks).await?;
    app.intake.add_source(problem_reports::store_problems(&rejected.borrow()));
    record_revocations(&app, &key_changes, now)?;
    restore_pending_work(&app).await?;
    let tool_server_factory = tool_server_factory(&app.state, &start.stop);
    let transport = Arc::new(InProcessTransport::from_app(&app));
    if start.waits_for_sources {
        app.wait_until_listed().await;
    }
    let stop = start.stop.clone();
    let tasks = TaskTracker::new();
    let mut had_policy = start.config.has_policy_section;
    let updates = config::spawn_watcher(start.load_options, &start.reading, &tasks, stop.clone());
    spawn_interface_upkeep(&tasks, app.state.clone(), stop.clone());
    let data_dir_lock = start.data_dir_lock;
    let completion = Box::pin(async move {
        tokio::select! {
            () = serve_listeners(&app, listener, extra_listeners, &server_config, &workers, stop) => {}
            () = config_updates::apply_updates(&app, updates, &mut had_policy) => {}
            () = app.run_background_tasks() => {}
            () = clocks.steady_clock.store_periodically(app.keys.store()) => {}
            () = problem_reports::watch_rejected_rows(rejected, &app.intake) => {}
        }
        app.shut_down().await;
        // After the sources, which may have tasks on these threads.
        drop((workers, data_dir_lock));
        Ok(())
    });
    Ok(RunningServer {
        address,
        extra_addresses,
        has_console,
        transport,
        tool_server_factory,
        key_changes,
        invalid_keys,
        completion,
    })
}

/// Returns the first keys whose file does not hold a valid key.
fn find_invalid_keys(
    start: &LaunchOptions,
    keys: &KeyStore,
    now: WallTime,
) -> Vec<(FirstKey, KeyState)> {
    let state = |key| (key, start.data_dir_lock.dir().key_state(&keys.key_ring(), key, now));
    let states = [FirstKey::Owner, FirstKey::Agent].map(state).into_iter();
    states.filter(|(_, state)| *state != KeyState::Valid).collect()
}

fn record_revocations(
    app: &App,
    key_changes: &KeyChanges,
    now: WallTime,
) -> Result<(), CommandError> {
    for id in &key_changes.revoked {
        app.ledger.record_event(&revocation_event(now, id)).map_err(startup_error("the record"))?;
    }
    Ok(())
}

/// Restores the pending calls, MCP tasks and programs of the previous process.
async fn restore_pending_work(app: &App) -> Result<(), CommandError> {
    pending_approvals::restore_pending_calls(&app.gateway).await?;
    let restored = app.state.restore_tasks(Arc::clone(&app.task_store)).await;
    let tasks = restored.map_err(startup_error("the MCP tasks"))?;
    if tasks > 0 {
        tracing::info!(tasks, "restored MCP tasks");
    }
    program_runtime::restore_programs(&app.source_factory.programs).await
}

/// Spawns the upkeep of the interfaces as its own task: a command without a server polls nothing
/// else.
fn spawn_interface_upkeep(tasks: &TaskTracker, state: McpServerState, stop: CancellationToken) {
    drop(tasks.spawn(async move {
        tokio::select! {
            () = state.watch_key_store() => {}
            () = state.sample_activity() => {}
            () = state.watch_source_states() => {}
            () = state.expire_tasks() => {}
            () = stop.cancelled() => {}
        }
    }));
}

/// Loads the keys and opens the record. Both read all that they have, so neither waits for the other.
async fn open_keys_and_record(
    store: &Arc<dyn Store>,
    start: &LaunchOptions,
    clocks: &ClockPair,
) -> Result<(Arc<KeyStore>, Arc<FileLedger>), CommandError> {
    let keys = load_keys(Arc::clone(store), start);
    let ledger = data_storage::open_ledger(start, &clocks.system_clock);
    // Both end before an error is returned: the record is not left half opened.
    let (keys, ledger) = tokio::join!(keys, ledger);
    Ok((Arc::new(keys?), ledger?))
}

async fn load_keys(store: Arc<dyn Store>, start: &LaunchOptions) -> Result<KeyStore, CommandError> {
    let (keys, problems) =
        KeyStore::load(store, start.anonymous_level).await.map_err(startup_error("the keys"))?;
    for problem in problems {
        tracing::warn!(place = problem.location, "{}", problem.message);
    }
    Ok(keys)
}

impl App {
    /// Runs the periodic tasks of the components. Returns when one of them ends.
    async fn run_background_tasks(&self) {
        let (sources, manifests) = (&self.source_factory, &self.manifest_storage.manifest_cache);
        tokio::select! {
            () = unmatched_names::watch_catalog(self) => {}
            () = sentence_search::run_embedding(self.state.components.sentence_vectors.as_deref(), &self.intake) => {}
            () = search_learning::run_learning(self.state.components.search_learning.as_deref()) => {}
            () = manifests.run_rewriter() => {}
            () = self.gateway.run_maintenance() => {}
            () = self.approval_notifier.run_webhook() => {}
            () = self.record_maintenance.run_schedule() => {}
            () = sources.node_cluster.run_updates(&self.intake) => {}
            () = sources.programs.run_resumption_loop() => {}
            () = sources.plugin_sources.run_updates() => {}
            () = problem_reports::watch_cache_outage(manifests.watch_outage(), &self.intake) => {}
        }
    }

    /// Waits until every source has answered or reached its start limit.
    async fn wait_until_listed(&self) {
        wait_for_sources(&self.intake).await;
        unmatched_names::refresh_report(&self.source_factory.config_report, &self.intake).await;
    }

    /// Shuts down in order: calls, sources with their processes, the record.
    async fn shut_down(self) {
        self.source_factory.programs.drain_tasks().await;
        self.gateway.drain_calls().await;
        search_learning::flush_last_feedback(self.state.components.search_learning.as_deref())
            .await;
        self.intake.shut_down().await;
        self.source_factory.plugin_sources.stop_processes().await;
        let ledger = self.ledger;
        // Waits until the last records are synced.
        drop(tokio::task::spawn_blocking(move || ledger.close_ledger()).await);
        self.record_maintenance.shut_down().await;
    }
}
