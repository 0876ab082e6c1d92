//! Plugin folders as sources, added and removed as the folders change.

mod tool_file_code;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use egress::EgressClient;
use gateway::{OnBehalf, PrincipalExecutor, PrincipalPort};
use intake::{ConfiguredSource, SourceSupervisor};
use plugins::{
    PluginRegistry, PluginRuntimeConfig, PluginSource, PluginTools, SETTINGS_DIR,
    list_plugins_outcome, reload_plugins_outcome,
};
use sandbox::process::ProcessLauncher;
use tool::plugin_admin::{PluginAdmin, PluginError, PluginStatus, ReloadReport};
use tool::{
    BoxFuture, CallContext, Clock, ExecuteError, ExecutionState, Json, RecordedCall, Source as _,
    SourceName, SourceTrust,
};

use super::build_facts::PLUGIN_KIND;
use cli_core::command_error::CommandError;
use config::Config;
use tool_file_code::ToolFileCodeHost;

/// Longest time for a plugin process to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Folder in the data directory for copies of plugin versions.
const COPIES_DIR: &str = "plugins";

/// Executors of `list_plugins` and `reload_plugins`, which act with the caller's rights.
#[derive(Debug)]
enum PluginToolCall {
    List(Arc<PluginSources>),
    Reload(Arc<PluginSources>),
}

impl PluginToolCall {
    async fn run_call(
        &self,
        caller: OnBehalf<'_>,
        call: RecordedCall<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let OnBehalf { principal, gateway } = caller;
        let outcome = match self {
            Self::List(plugins) => {
                list_plugins_outcome(call.call(), gateway.visible_plugins(principal, &**plugins))
            }
            Self::Reload(plugins) => {
                let done = gateway.reload_plugins(principal, &**plugins, None).await;
                let done = done.map_err(|it| ExecuteError::not_sent(it.code, it.message))?;
                reload_plugins_outcome(&done)
            }
        };
        Ok(ExecutionState::Completed(outcome))
    }
}

impl PrincipalExecutor for PluginToolCall {
    fn execute<'a>(
        &'a self,
        caller: OnBehalf<'a>,
        call: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_call(caller, call))
    }
}

/// The plugins of this server and their sources in the catalog.
#[derive(Debug)]
pub(crate) struct PluginSources {
    registry: Arc<PluginRegistry>,
    trust: Mutex<SourceTrust>,
    /// Plugins that are sources of the catalog now.
    registered_names: Mutex<BTreeSet<SourceName>>,
    /// The supervisor of the sources. Weak, because it owns the plugins' sources.
    intake: Weak<SourceSupervisor>,
}

impl PluginSources {
    /// Opens the registry of plugins and scans the configured folders.
    pub(crate) async fn open_plugins(
        config: &Config,
        data_dir: &Path,
        launcher: ProcessLauncher,
        egress: &EgressClient,
        clock: &Arc<dyn Clock>,
        supervisor: &Arc<SourceSupervisor>,
    ) -> Result<Arc<Self>, CommandError> {
        let settings = config.plugins.settings_dir.clone();
        let dependencies = PluginRuntimeConfig {
            launcher,
            min_sandbox_tier: config.server.min_sandbox_level,
            // Connections that no other client shares.
            egress: Some(egress.with_separate_pool()),
            clock: Arc::clone(clock),
            copies_dir: data_dir.join(COPIES_DIR),
            settings_dir: settings.unwrap_or_else(|| data_dir.join(SETTINGS_DIR)),
            python_path: config.plugins.python_path.clone(),
            startup_timeout: READY_TIMEOUT,
        };
        let registry = PluginRegistry::open(dependencies)
            .await
            .map_err(super::startup_error("the plugins"))?;
        let plugin_sources = Self {
            registry,
            trust: Mutex::new(config.plugins.trust),
            registered_names: Mutex::default(),
            intake: Arc::downgrade(supervisor),
        };
        plugin_sources.apply_config(config);
        plugin_sources.registry.scan_folders().await;
        Ok(Arc::new(plugin_sources))
    }

    /// Returns the host for the code of the tool file of the source `name`.
    pub(crate) fn tool_file_code(&self, name: &SourceName, path: &Path) -> Arc<ToolFileCodeHost> {
        Arc::new(ToolFileCodeHost::new(&self.registry, name, path))
    }

    /// Applies a configuration update.
    pub(crate) fn apply_config(&self, config: &Config) {
        let plugins = &config.plugins;
        self.registry.configure(plugins.folders.clone(), plugins.grants.clone());
        *self.trust.lock().unwrap_or_else(PoisonError::into_inner) = plugins.trust;
    }

    /// Returns one source for each plugin and, if plugin folders are configured, one for the plugin
    /// tools.
    pub(crate) fn configured_sources(self: &Arc<Self>, config: &Config) -> Vec<ConfiguredSource> {
        let tools = (!config.plugins.folders.is_empty()).then(|| {
            let list = PrincipalPort(PluginToolCall::List(Arc::clone(self)));
            let reload = PrincipalPort(PluginToolCall::Reload(Arc::clone(self)));
            let tools = PluginTools::new(Arc::new(list), Arc::new(reload));
            ConfiguredSource::new(Arc::new(tools), "plugins", SourceTrust::Full, 0)
        });
        tools.into_iter().chain(self.plugin_sources()).collect()
    }

    fn plugin_sources(&self) -> Vec<ConfiguredSource> {
        let trust = *self.trust.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = self.registry.sources();
        let mut registered_names =
            self.registered_names.lock().unwrap_or_else(PoisonError::into_inner);
        *registered_names = sources.iter().map(|source| source.name().clone()).collect();
        let sourced = |source: Arc<PluginSource>| {
            // A new object, for example of a folder that was absent for a while, is a new source.
            let fingerprint = (Arc::as_ptr(&source) as usize as u64) ^ trust as u64;
            ConfiguredSource::new(source, PLUGIN_KIND, trust, fingerprint)
        };
        sources.into_iter().map(sourced).collect()
    }

    /// Adds new plugins to the catalog and removes those that no longer exist.
    fn sync_sources(&self) {
        let Some(intake) = self.intake.upgrade() else { return };
        let previous = self.registered_names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let current = self.plugin_sources();
        let names: BTreeSet<_> = current.iter().map(|it| it.source.name().clone()).collect();
        for gone in previous.difference(&names) {
            intake.remove_source(gone);
        }
        for sourced in current {
            intake.add_source(Some(sourced));
        }
    }

    /// Watches the plugin folders and updates the catalog; never returns.
    pub(crate) async fn run_updates(&self) {
        let changes = async {
            let mut news = self.registry.subscribe_plugin_set();
            loop {
                news.borrow_and_update();
                self.sync_sources();
                if news.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::join!(changes, self.registry.watch_folders());
    }

    async fn reload_and_refresh(&self, only: Option<&str>) -> Result<ReloadReport, PluginError> {
        let (done, sources) = self.registry.reload_plugins(only).await?;
        self.sync_sources();
        if let Some(intake) = self.intake.upgrade() {
            for source in &sources {
                // A plugin that was removed meanwhile has nothing to list.
                let _gone = intake.refresh_sources(Some(source)).await;
            }
        }
        Ok(done)
    }

    async fn update_settings(&self, name: &str, changes: &Json) -> Result<Json, PluginError> {
        let settings = self.registry.update_settings(name, changes).await?;
        self.reload_and_refresh(Some(name)).await?;
        Ok(settings)
    }

    /// Stops all plugin processes.
    pub(crate) async fn stop_processes(&self) {
        self.registry.close().await;
    }
}

impl PluginAdmin for PluginSources {
    fn list_plugins(&self) -> Vec<PluginStatus> {
        self.registry.statuses()
    }

    fn list_changed(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(self.registry.changed_plugins())
    }

    fn reload_changed<'a>(
        &'a self,
        only: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ReloadReport, PluginError>> {
        Box::pin(self.reload_and_refresh(only))
    }

    fn plugin_settings(&self, name: &str) -> Result<Json, PluginError> {
        self.registry.plugin_settings(name)
    }

    fn update_settings<'a>(
        &'a self,
        name: &'a str,
        changes: &'a Json,
    ) -> BoxFuture<'a, Result<Json, PluginError>> {
        Box::pin(self.update_settings(name, changes))
    }
}
