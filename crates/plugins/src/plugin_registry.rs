//! Plugin registry: the plugins in the operator's folders, as folders appear and disappear.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox::{SandboxLevel, detect_support};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::plugin_admin::{PluginError, PluginStatus, ReloadReport};
use tool::{Json, Source as _, SourceName};

use crate::AccessGrant;
use crate::access::PluginRuntimeConfig;
use crate::plugin_folder::{CopyStore, MANIFEST_FILE};
use crate::plugin_source::{PluginAuthority, PluginSource, ReloadOutcome};
use crate::plugin_version::VersionBuilder;
use crate::settings::{self, PluginSettingsError};

/// Folder of settings within the data directory (research registry).
pub const SETTINGS_DIR: &str = "tool_settings";
/// Most plugins.
const MAX_PLUGINS: usize = 200;
/// Between two looks for new folders and gone ones.
const SCAN_INTERVAL: Duration = Duration::from_millis(500);
/// Scans without a folder after which it counts as removed, because editors move files temporarily.
const MISSED_SCANS_LIMIT: u8 = 2;

/// Registry of all plugins.
#[derive(Debug)]
pub struct PluginRegistry {
    version_builder: Arc<VersionBuilder>,
    shared_state: Arc<SharedRegistryState>,
    plugin_set_version: watch::Sender<u64>,
}

/// Shared state that plugins query: names and grants.
#[derive(Debug, Default)]
struct SharedRegistryState {
    state: Mutex<RegistryState>,
}

#[derive(Debug, Default)]
struct RegistryState {
    folders: Vec<PathBuf>,
    grants: BTreeMap<String, AccessGrant>,
    plugins: BTreeMap<PathBuf, PluginEntry>,
    /// Folder by plugin name.
    folder_by_name: BTreeMap<String, PathBuf>,
}

#[derive(Debug)]
struct PluginEntry {
    source: Arc<PluginSource>,
    missed_scans: u8,
}

impl SharedRegistryState {
    fn lock_state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PluginAuthority for SharedRegistryState {
    fn claim_name(&self, name: &str, folder: &Path) -> Result<(), PathBuf> {
        let mut state = self.lock_state();
        if let Some(first) = state.folder_by_name.get(name).filter(|first| *first != folder) {
            return Err(first.clone());
        }
        state.folder_by_name.retain(|_, of| of != folder);
        state.folder_by_name.insert(name.to_owned(), folder.to_owned());
        Ok(())
    }

    fn grant_for(&self, name: &str) -> AccessGrant {
        self.lock_state().grants.get(name).cloned().unwrap_or_default()
    }
}

impl PluginRegistry {
    /// Opens a registry without plugins, and probes the sandbox of this machine. Plugin tasks run
    /// on the current runtime.
    ///
    /// # Errors
    /// The folder for copies cannot be created.
    pub async fn open(config: PluginRuntimeConfig) -> io::Result<Arc<Self>> {
        let maker = Arc::new(new_builder(config).await?);
        Ok(Arc::new(Self {
            version_builder: maker,
            shared_state: Arc::default(),
            plugin_set_version: watch::channel(0).0,
        }))
    }

    /// Sets the operator's folders, in order, and the grants of plugins.
    pub fn configure(&self, folders: Vec<PathBuf>, grants: BTreeMap<String, AccessGrant>) {
        let mut state = self.shared_state.lock_state();
        (state.folders, state.grants) = (folders, grants);
    }

    /// Returns the authority that decides names and grants.
    pub(crate) fn authority(&self) -> Arc<dyn PluginAuthority> {
        Arc::clone(&self.shared_state) as Arc<dyn PluginAuthority>
    }

    /// Returns the builder of plugin versions.
    pub(crate) fn version_builder(&self) -> Arc<VersionBuilder> {
        Arc::clone(&self.version_builder)
    }

    /// Watches code that is not in a plugin folder.
    pub(crate) fn watch_attached(&self, source: &Arc<PluginSource>) {
        drop(
            self.version_builder
                .tasks
                .spawn_on(Arc::clone(source).watch_folder(), &self.version_builder.runtime),
        );
    }

    /// Watches for new and removed folders; never returns.
    pub async fn watch_folders(&self) {
        loop {
            self.scan_folders().await;
            tokio::select! {
                () = tokio::time::sleep(SCAN_INTERVAL) => {}
                () = self.version_builder.cancellation.cancelled() => return std::future::pending().await,
            }
        }
    }

    /// Scans the folders once, and adds and removes sources accordingly.
    pub async fn scan_folders(&self) {
        let folders = self.shared_state.lock_state().folders.clone();
        let found = tokio::task::spawn_blocking(move || find_plugin_folders(&folders))
            .await
            .unwrap_or_default();
        let (added, removed) = self.apply_scan(&found);
        let has_changed = !added.is_empty() || !removed.is_empty();
        for source in added {
            drop(
                self.version_builder
                    .tasks
                    .spawn_on(source.watch_folder(), &self.version_builder.runtime),
            );
        }
        if !removed.is_empty() {
            self.retry_rejected();
        }
        for source in removed {
            tracing::info!(folder = %source.folder().display(), "a plugin was removed");
            source.stop_source();
        }
        if has_changed {
            self.plugin_set_version.send_modify(|number| *number += 1);
        }
    }

    /// Retries rejected plugins, because a name may have become available.
    fn retry_rejected(&self) {
        for source in
            self.sources().into_iter().filter(|source| !source.rejected_problems().is_empty())
        {
            let retry = async move {
                source.forget_inputs();
                let _looked = source.request_scan().await;
            };
            drop(self.version_builder.tasks.spawn_on(retry, &self.version_builder.runtime));
        }
    }

    fn apply_scan(&self, found: &[PathBuf]) -> (Vec<Arc<PluginSource>>, Vec<Arc<PluginSource>>) {
        let mut state = self.shared_state.lock_state();
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        state.plugins.retain(|folder, plugin| {
            plugin.missed_scans = if found.contains(folder) { 0 } else { plugin.missed_scans + 1 };
            if plugin.missed_scans >= MISSED_SCANS_LIMIT {
                removed.push(Arc::clone(&plugin.source));
            }
            plugin.missed_scans < MISSED_SCANS_LIMIT
        });
        for source in &removed {
            state.folder_by_name.retain(|_, of| of != source.folder());
        }
        for folder in found.iter().take(MAX_PLUGINS) {
            if state.plugins.contains_key(folder) {
                continue;
            }
            let names = Arc::clone(&self.shared_state) as Arc<dyn PluginAuthority>;
            match PluginSource::new(folder, Arc::clone(&self.version_builder), names) {
                Ok(source) => {
                    let source = Arc::new(source);
                    added.push(Arc::clone(&source));
                    state.plugins.insert(folder.clone(), PluginEntry { source, missed_scans: 0 });
                }
                Err(error) => {
                    tracing::debug!(folder = %folder.display(), %error, "invalid plugin name");
                }
            }
        }
        (added, removed)
    }

    /// Subscribes to changes of the set of plugins.
    pub fn subscribe_plugin_set(&self) -> watch::Receiver<u64> {
        self.plugin_set_version.subscribe()
    }

    /// Returns the plugins as sources.
    pub fn sources(&self) -> Vec<Arc<PluginSource>> {
        self.shared_state
            .lock_state()
            .plugins
            .values()
            .map(|plugin| Arc::clone(&plugin.source))
            .collect()
    }

    /// Returns the status of all plugins.
    pub fn statuses(&self) -> Vec<PluginStatus> {
        self.sources().iter().map(|source| source.status()).collect()
    }

    fn find_plugin(&self, name: &str) -> Result<Arc<PluginSource>, PluginError> {
        let all = self.sources();
        let found = all.into_iter().find(|source| source.status().name == name);
        found.ok_or_else(|| PluginError::NotFound(name.to_owned()))
    }

    /// Returns the names of plugins whose folder or settings differ from the loaded version.
    pub async fn changed_plugins(&self) -> Vec<String> {
        let sources = self.sources();
        let differ = move || {
            let differ = sources.iter().filter(|source| source.has_changes());
            differ.map(|source| source.status().name).collect()
        };
        tokio::task::spawn_blocking(differ).await.unwrap_or_default()
    }

    /// Reloads all plugins, or one. Returns the result of each, and the sources to list again.
    ///
    /// # Errors
    /// [`PluginError::NotFound`].
    pub async fn reload_plugins(
        &self,
        only: Option<&str>,
    ) -> Result<(ReloadReport, Vec<SourceName>), PluginError> {
        let before: Vec<_> = self.statuses().into_iter().map(|state| state.name).collect();
        if only.is_none() {
            for _ in 0..MISSED_SCANS_LIMIT {
                self.scan_folders().await;
            }
        }
        let sources = match only {
            Some(name) => vec![self.find_plugin(name)?],
            None => self.sources(),
        };
        let mut reloaded = ReloadReport::default();
        let mut names = Vec::new();
        for source in &sources {
            let scan_result = source.request_scan().await;
            let name = source.status().name;
            let new = !before.contains(&name);
            match scan_result {
                ReloadOutcome::Rejected => reloaded.failed.push(name),
                ReloadOutcome::Applied => reloaded.reloaded.push(name),
                // Rejected before, and unchanged since.
                ReloadOutcome::Unchanged if !source.rejected_problems().is_empty() => {
                    reloaded.failed.push(name);
                }
                ReloadOutcome::Unchanged if new => reloaded.reloaded.push(name),
                ReloadOutcome::Unchanged => {}
            }
            names.push(source.name().clone());
        }
        if only.is_none() {
            let now: Vec<_> = self.statuses().into_iter().map(|state| state.name).collect();
            reloaded.reloaded.extend(before.into_iter().filter(|name| !now.contains(name)));
        }
        Ok((reloaded, names))
    }

    /// Returns the effective settings of a plugin.
    ///
    /// # Errors
    /// [`PluginError::NotFound`].
    pub fn plugin_settings(&self, name: &str) -> Result<Json, PluginError> {
        self.find_plugin(name)?
            .effective_settings()
            .ok_or_else(|| PluginError::NotFound(name.to_owned()))
    }

    /// Updates the settings of a plugin and applies them.
    ///
    /// # Errors
    /// [`PluginError`].
    pub async fn update_settings(&self, name: &str, changes: &Json) -> Result<Json, PluginError> {
        let source = self.find_plugin(name)?;
        let missing = || PluginError::NotFound(name.to_owned());
        let (name, schema) = source.settings_schema().ok_or_else(missing)?;
        let (folder, changes) =
            (self.version_builder.config.settings_dir.clone(), changes.to_value());
        let write = move || settings::update_settings(&folder, &name, &schema, &changes);
        let written = tokio::task::spawn_blocking(write).await;
        match written {
            Ok(Ok(())) => {}
            Ok(Err(PluginSettingsError::Invalid(why))) => {
                return Err(PluginError::InvalidSettings(why));
            }
            Ok(Err(PluginSettingsError::WriteFailed(why))) => {
                return Err(PluginError::Unavailable(why));
            }
            Err(_) => return Err(PluginError::Unavailable("it was cancelled".to_owned())),
        }
        let _looked = source.request_scan().await;
        source.effective_settings().ok_or_else(missing)
    }

    /// Ends all processes; resolves when they are gone.
    pub async fn close(&self) {
        self.version_builder.cancellation.cancel();
        for source in self.sources() {
            source.stop_source();
        }
        self.version_builder.tasks.close();
        self.version_builder.tasks.wait().await;
    }
}

/// Creates the builder of plugin versions, and probes the sandbox of this machine.
pub(crate) async fn new_builder(config: PluginRuntimeConfig) -> io::Result<VersionBuilder> {
    let path = config.copies_dir.clone();
    let tier = select_sandbox_tier(&config).await;
    // Without namespaces, processes started by root run as another user, who cannot access root's
    // folders.
    let passed = tier == Ok(SandboxLevel::NoNamespaces) && rustix::process::geteuid().is_root();
    let open = move || {
        if passed { CopyStore::open_in_temp_dir(&path) } else { CopyStore::open_empty(&path) }
    };
    let copies = tokio::task::spawn_blocking(open).await;
    let copies = copies.map_err(|_| io::Error::other("it was cancelled"))??;
    Ok(VersionBuilder {
        config,
        copy_store: copies,
        sandbox_tier: tier,
        runtime: tokio::runtime::Handle::current(),
        tasks: TaskTracker::new(),
        cancellation: CancellationToken::new(),
    })
}

/// Finds the folders with a manifest directly below the given ones, in their order. Blocks.
pub(crate) fn find_plugin_folders(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let entries = entries.filter_map(Result::ok).take(10 * MAX_PLUGINS);
        let mut plugin_dirs: Vec<_> = entries.map(|entry| entry.path()).collect();
        plugin_dirs.sort();
        let hidden = |path: &PathBuf| {
            path.file_name().is_some_and(|it| it.to_string_lossy().starts_with('.'))
        };
        plugin_dirs.retain(|path| !hidden(path) && path.join(MANIFEST_FILE).is_file());
        all.extend(plugin_dirs);
    }
    all
}

/// Selects a sandbox level that this machine provides and the configuration accepts.
async fn select_sandbox_tier(config: &PluginRuntimeConfig) -> Result<SandboxLevel, String> {
    let support = detect_support(&config.launcher).await;
    match support.best_level() {
        Some(tier) if tier >= config.min_sandbox_tier => Ok(tier),
        Some(_) => Err(support.missing_reason(SandboxLevel::Full).unwrap_or_default()),
        None => {
            let why = support
                .missing_reason(SandboxLevel::NoNamespaces)
                .or_else(|| support.missing_reason(SandboxLevel::Full));
            Err(why.unwrap_or_default())
        }
    }
}
