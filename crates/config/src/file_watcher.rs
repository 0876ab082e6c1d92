//! Watches the configuration file and the files it includes. Every change is loaded completely and published, valid or
//! not.
//!
//! It watches folders instead of files, since editors and Kubernetes replace files and swap links. Where the system
//! reports no changes, the poll interval finds them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Config, ConfigErrors, FileFingerprint, LoadOptions, LoadReport, load_config};

/// The quiet time after a change before the files are loaded.
const DEBOUNCE: Duration = Duration::from_millis(150);
/// The longest delay of a load while changes go on.
const MAX_DEBOUNCE: Duration = Duration::from_secs(2);
/// The interval of loads without a reported change.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The newest state of the file: a valid configuration, or all its errors. The receiver keeps the last valid one.
pub type ConfigUpdate = Arc<Result<Config, ConfigErrors>>;

/// Spawns the task that publishes changes after the `initial` load, until `stop`. Without a file it
/// publishes nothing.
pub fn spawn_watcher(
    options: LoadOptions,
    initial: &LoadReport,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> watch::Receiver<ConfigUpdate> {
    let (sender, receiver) = watch::channel(Arc::new(initial.clone().into_valid_config()));
    if options.file.is_some() {
        let watcher = ConfigWatcher { options, files: initial.files.clone(), sender };
        tasks.spawn(watcher.run_until(stop));
    }
    receiver
}

/// Loads the configuration after each change, and publishes it.
struct ConfigWatcher {
    options: LoadOptions,
    /// The files of the newest published update.
    files: Vec<FileFingerprint>,
    sender: watch::Sender<ConfigUpdate>,
}

impl ConfigWatcher {
    async fn run_until(mut self, stop: CancellationToken) {
        let change_signal = Arc::new(Notify::new());
        let mut folders = FolderWatcher::new(Arc::clone(&change_signal));
        let mut is_quiet = false;
        loop {
            // Watches before it loads: a change in between sends a signal.
            folders = folders.watch_folders_of(&self.files).await;
            if self.reload_if_changed(is_quiet).await {
                continue;
            }
            is_quiet = tokio::select! {
                () = stop.cancelled() => return,
                () = self.sender.closed() => return,
                () = wait_until_quiet(&change_signal) => true,
                () = tokio::time::sleep(POLL_INTERVAL) => false,
            };
        }
    }

    async fn load_files(&self) -> Option<LoadReport> {
        let options = self.options.clone();
        tokio::task::spawn_blocking(move || load_config(&options)).await.ok()
    }

    /// Reloads the files, and publishes the result if they changed. Returns whether the set of files changed. Unless
    /// `is_quiet`, a write may be in progress, so it waits until two loads agree.
    async fn reload_if_changed(&mut self, is_quiet: bool) -> bool {
        let Some(mut report) = self.load_files().await else { return false };
        if report.files == self.files {
            return false;
        }
        let started = tokio::time::Instant::now();
        let mut is_quiet = is_quiet;
        while !is_quiet && started.elapsed() < MAX_DEBOUNCE {
            tokio::time::sleep(DEBOUNCE).await;
            let Some(next) = self.load_files().await else { return false };
            is_quiet = next.files == report.files;
            report = next;
        }
        if report.files == self.files {
            return false;
        }
        let paths = |files: &[FileFingerprint]| {
            files.iter().map(|file| file.path.clone()).collect::<Vec<_>>()
        };
        let has_other_files = paths(&report.files) != paths(&self.files);
        self.files.clone_from(&report.files);
        self.sender.send_replace(Arc::new(report.into_valid_config()));
        has_other_files
    }
}

/// Waits for a change and then for the quiet time, at most [`MAX_DEBOUNCE`].
async fn wait_until_quiet(change_signal: &Notify) {
    change_signal.notified().await;
    let quiet =
        async { while tokio::time::timeout(DEBOUNCE, change_signal.notified()).await.is_ok() {} };
    // After a timeout the files are loaded as well.
    let _timed_out = tokio::time::timeout(MAX_DEBOUNCE, quiet).await;
}

/// The watched folders. Each change in one sends the signal.
struct FolderWatcher {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl FolderWatcher {
    fn new(change_signal: Arc<Notify>) -> Self {
        let on_event = move |event: notify::Result<notify::Event>| {
            if event.as_ref().map_or(true, |event| is_change(event.kind)) {
                change_signal.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(on_event);
        let log = |error: &notify::Error| {
            tracing::warn!(%error, "cannot watch the configuration files; checking them every 10 s instead");
        };
        Self { watcher: watcher.inspect_err(log).ok(), watched: BTreeSet::new() }
    }

    /// Watches the folders of these files, and no others.
    async fn watch_folders_of(self, files: &[FileFingerprint]) -> Self {
        let paths: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
        let update = move || self.update_watches(&paths);
        tokio::task::spawn_blocking(update)
            .await
            .unwrap_or(Self { watcher: None, watched: BTreeSet::new() })
    }

    fn update_watches(mut self, files: &[PathBuf]) -> Self {
        let wanted: BTreeSet<PathBuf> =
            files.iter().flat_map(|file| folders_to_watch(file)).collect();
        let Some(watcher) = &mut self.watcher else { return self };
        for folder in self.watched.difference(&wanted) {
            // The system stops watching a removed folder by itself.
            let _removed = watcher.unwatch(folder);
        }
        // Registers every folder again: the system forgets one that was removed and recreated.
        self.watched = wanted
            .into_iter()
            .filter(|folder| watcher.watch(folder, RecursiveMode::NonRecursive).is_ok())
            .collect();
        self
    }
}

/// The folder of a file, and that of its target: a link changes in the one, its content in the other.
fn folders_to_watch(file: &Path) -> Vec<PathBuf> {
    let target = file.canonicalize().ok();
    let both = [Some(file), target.as_deref()].into_iter().flatten();
    both.filter_map(Path::parent).map(Path::to_owned).collect()
}

/// Whether an event may change a file. The watcher's own reads send events too.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
