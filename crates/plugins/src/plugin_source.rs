//! One plugin as a source: watches its folder and replaces its version if the new one is valid.

mod listing;
mod reload;
mod version_replacement;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tool::plugin_admin::PLUGIN_SOURCE_PREFIX;
use tool::{NameError, Problem, SourceName};

use crate::AccessGrant;
use crate::backoff_schedule::BackoffSchedule;
use crate::plugin_folder::{FolderContent, FolderError, FolderFingerprint};
use crate::plugin_version::{PluginVersion, VersionBuilder};
use crate::settings;
use crate::tool_file_code::SyntheticManifest;
use reload::START_BACKOFF;
use version_replacement::VersionInputs;

/// Interval between two scans of a folder.
const SCAN_INTERVAL: Duration = Duration::from_millis(300);
/// Interval between two reads that must be equal before a change is applied.
const STABLE_INTERVAL: Duration = Duration::from_millis(80);
/// Maximum number of reads of a folder that keeps changing.
const MAX_STABLE_READS: usize = 10;

/// Authority over plugin names and grants.
pub(crate) trait PluginAuthority: Send + Sync + std::fmt::Debug {
    /// Claims the name for the plugin of this folder. Otherwise returns the folder that has it.
    fn claim_name(&self, name: &str, folder: &Path) -> Result<(), PathBuf>;
    /// Returns the operator's grant for the plugin.
    fn grant_for(&self, name: &str) -> AccessGrant;
}

/// A plugin's folder as a source.
#[derive(Debug)]
pub struct PluginSource {
    name: SourceName,
    folder: PathBuf,
    version_builder: Arc<VersionBuilder>,
    authority: Arc<dyn PluginAuthority>,
    /// Manifest from a tool file, for code without its own manifest.
    synthetic_manifest: Mutex<Option<Arc<SyntheticManifest>>>,
    state: Mutex<PluginSourceState>,
    /// Counts the states; 0 before the first.
    revision: watch::Sender<u64>,
    requested_scan: watch::Sender<u64>,
    completed_scan: watch::Sender<u64>,
    closed: CancellationToken,
}

#[derive(Debug)]
struct PluginSourceState {
    version: Option<PluginVersion>,
    /// Problems of the last rejected change.
    rejected_problems: Vec<Problem>,
    /// Inputs of the last scan that led to no new version.
    last_inputs: VersionInputs,
    fingerprint: FolderFingerprint,
    /// Retries of a version that did not start.
    start_backoff: BackoffSchedule,
}

impl Default for PluginSourceState {
    fn default() -> Self {
        Self {
            version: None,
            rejected_problems: Vec::new(),
            last_inputs: VersionInputs::default(),
            fingerprint: FolderFingerprint::default(),
            start_backoff: BackoffSchedule::new(&START_BACKOFF),
        }
    }
}

/// Result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReloadOutcome {
    Unchanged,
    Applied,
    Rejected,
}

impl PluginSource {
    /// Creates the source of the plugin in `folder`, whose last path segment is the source name.
    ///
    /// # Errors
    /// The segment is not a valid source name.
    pub(crate) fn new(
        folder: &Path,
        builder: Arc<VersionBuilder>,
        authority: Arc<dyn PluginAuthority>,
    ) -> Result<Self, NameError> {
        let part = folder.file_name().unwrap_or_default().to_string_lossy();
        SourceName::new(&part)?;
        let name = SourceName::new(format!("{PLUGIN_SOURCE_PREFIX}{part}"))?;
        Ok(Self::with_name(name, folder, builder, authority))
    }

    /// Creates the source with this name, also for code that a tool file declares.
    pub(crate) fn with_name(
        name: SourceName,
        folder: &Path,
        builder: Arc<VersionBuilder>,
        authority: Arc<dyn PluginAuthority>,
    ) -> Self {
        let channel = || watch::channel(0).0;
        Self {
            name,
            folder: folder.to_owned(),
            closed: builder.cancellation.child_token(),
            version_builder: builder,
            authority,
            synthetic_manifest: Mutex::default(),
            state: Mutex::default(),
            revision: channel(),
            requested_scan: channel(),
            completed_scan: channel(),
        }
    }

    /// Sets the synthetic manifest. Returns whether it is the first one.
    pub(crate) fn set_synthetic_manifest(&self, manifest: Arc<SyntheticManifest>) -> bool {
        let mut slot = self.synthetic_manifest.lock().unwrap_or_else(PoisonError::into_inner);
        slot.replace(manifest).is_none()
    }

    /// Returns the problems of the last rejected change.
    pub(crate) fn rejected_problems(&self) -> Vec<Problem> {
        self.lock_state().rejected_problems.clone()
    }

    /// Reads the content of the folder. Blocks.
    fn read_content(&self) -> Result<FolderContent, FolderError> {
        let mut content = FolderContent::read_folder(&self.folder)?;
        let manifest =
            self.synthetic_manifest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(manifest) = manifest {
            manifest.apply_to(&mut content);
        }
        Ok(content)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn lock_state(&self) -> MutexGuard<'_, PluginSourceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Scans the folder periodically, and on request.
    pub(crate) async fn watch_folder(self: Arc<Self>) {
        let mut requests = self.requested_scan.subscribe();
        loop {
            let number = *requests.borrow_and_update();
            let scan = self.scan_once(number > 0 && *self.completed_scan.borrow() < number);
            tokio::select! {
                _outcome = scan => {}
                () = self.closed.cancelled() => return,
            }
            self.completed_scan.send_replace(number.max(1));
            tokio::select! {
                () = tokio::time::sleep(SCAN_INTERVAL) => {}
                _ = requests.changed() => {}
                (session, now) = self.wait_for_server_change() => self.refresh_listing(&session, now).await,
                () = self.closed.cancelled() => return,
            }
        }
    }

    /// Requests a scan now, and resolves when it is done.
    pub(crate) async fn request_scan(&self) -> ReloadOutcome {
        let before = (*self.revision.borrow(), self.lock_state().rejected_problems.clone());
        let mut number = 0;
        self.requested_scan.send_modify(|requested| {
            *requested = (*requested).max(*self.completed_scan.borrow()) + 1;
            number = *requested;
        });
        let mut done = self.completed_scan.subscribe();
        tokio::select! {
            _ = done.wait_for(|done| *done >= number) => {}
            () = self.closed.cancelled() => {}
        }
        let after = (*self.revision.borrow(), self.lock_state().rejected_problems.clone());
        if !after.1.is_empty() && before != after {
            ReloadOutcome::Rejected
        } else if before.0 == after.0 {
            ReloadOutcome::Unchanged
        } else {
            ReloadOutcome::Applied
        }
    }

    /// Clears the stored inputs, so that the next scan retries rejected content even if it is
    /// unchanged.
    pub(crate) fn forget_inputs(&self) {
        self.lock_state().last_inputs = VersionInputs::default();
    }

    /// Returns whether the folder or the settings changed since the last scan. Blocks.
    pub(crate) fn has_changes(&self) -> bool {
        let inputs = self.lock_state().last_inputs.clone();
        let content = self.read_content().ok().map(|content| content.digest);
        content != inputs.content_digest || self.settings_text() != inputs.settings
    }

    fn settings_text(&self) -> Option<Vec<u8>> {
        let name =
            self.lock_state().version.as_ref().map(|version| version.manifest.name.clone())?;
        settings::current_text(&self.version_builder.config.settings_dir, &name)
    }

    /// Scans once: compares names and times, and reads the content only if they differ.
    async fn scan_once(self: &Arc<Self>, whole: bool) -> ReloadOutcome {
        let source = Arc::clone(self);
        let is_needed = tokio::task::spawn_blocking(move || source.needs_read(whole)).await;
        if !is_needed.unwrap_or(false) {
            return ReloadOutcome::Unchanged;
        }
        let Some(content) = self.read_stable().await else { return ReloadOutcome::Unchanged };
        self.apply_content(content).await
    }

    /// Whether the folder may have changed. Blocks.
    fn needs_read(&self, whole: bool) -> bool {
        let now = self.version_builder.config.clock.wall_now();
        let print = FolderFingerprint::scan_folder(&self.folder, now).unwrap_or_default();
        let settings = self.settings_text();
        let name = self.lock_state().version.as_ref().map(|version| version.manifest.name.clone());
        let grant = name.map(|name| self.authority.grant_for(&name));
        let mut state = self.lock_state();
        if state.start_backoff.take_due_retry(self.version_builder.config.clock.monotonic_now()) {
            state.last_inputs = VersionInputs::default();
        }
        let first = state.last_inputs == VersionInputs::default();
        let other = settings != state.last_inputs.settings
            || grant.is_some_and(|grant| grant != state.last_inputs.grant);
        let should_read = whole || first || other || print.is_recent || print != state.fingerprint;
        state.fingerprint = print;
        should_read
    }

    /// Reads the content until two reads are equal.
    async fn read_stable(self: &Arc<Self>) -> Option<Result<FolderContent, String>> {
        let mut last = self.spawn_read().await?;
        for _ in 0..MAX_STABLE_READS {
            if last.as_ref().is_ok_and(|content| self.is_last_content(content)) {
                return Some(last);
            }
            tokio::time::sleep(STABLE_INTERVAL).await;
            let next = self.spawn_read().await?;
            let same = match (&last, &next) {
                (Ok(last), Ok(next)) => last.digest == next.digest,
                (Err(last), Err(next)) => last == next,
                _ => false,
            };
            last = next;
            if same {
                break;
            }
        }
        Some(last)
    }

    fn is_last_content(&self, content: &FolderContent) -> bool {
        self.lock_state().last_inputs.content_digest == Some(content.digest)
    }

    async fn spawn_read(self: &Arc<Self>) -> Option<Result<FolderContent, String>> {
        let source = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || source.read_content()).await;
        Some(read.ok()?.map_err(|error| error.to_string()))
    }

    fn notify_revision(&self) {
        self.revision.send_modify(|revision| *revision += 1);
    }

    /// Stops the source: scans end, and the process ends with its last call.
    pub(crate) fn stop_source(&self) {
        self.closed.cancel();
        let old = self.lock_state().version.take();
        drop(old);
    }
}
