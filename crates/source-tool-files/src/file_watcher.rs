//! Watcher for one file: kernel events on its folder, plus polling.
//!
//! The folder is watched, because editors and Kubernetes replace the file. The waiting task does
//! the watching: there is no background task and no queue, only a revision counter.

mod folder_watches;

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, MetadataKind, ModifyKind};
use notify::{Event, EventKind};
use tokio::sync::watch;
use tool::SourceRevision;

use folder_watches::FolderSubscription;

/// Default poll interval, for files without kernel events.
pub const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Delay before a change is reported, because editors write in several steps.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Options of change detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchOptions {
    /// Whether kernel events are used. Some file systems (NFS, some container mounts) send none.
    pub uses_kernel_events: bool,
    /// Interval between two polls.
    pub poll_interval: Duration,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { uses_kernel_events: true, poll_interval: DEFAULT_POLL_INTERVAL }
    }
}

/// Fingerprint of a file from its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileFingerprint {
    device: u64,
    inode: u64,
    size_bytes: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

#[derive(Debug)]
pub(super) struct FileWatcher {
    path: Arc<Path>,
    options: WatchOptions,
    revision: Arc<watch::Sender<SourceRevision>>,
    last_fingerprint: Mutex<LastFingerprint>,
    kernel_watch: Mutex<KernelWatch>,
}

/// Last fingerprint of the file.
#[derive(Debug)]
enum LastFingerprint {
    /// The file was not read yet.
    Unknown,
    /// The last fingerprint; `None` if there was no file.
    Known(Option<FileFingerprint>),
}

#[derive(Debug)]
enum KernelWatch {
    Disabled,
    NotStarted,
    Active { _subscription: FolderSubscription },
    Closed,
}

impl FileWatcher {
    pub(super) fn new(path: Arc<Path>, options: WatchOptions) -> Self {
        let kernel = Mutex::new(if options.uses_kernel_events {
            KernelWatch::NotStarted
        } else {
            KernelWatch::Disabled
        });
        let revision = Arc::new(watch::Sender::new(SourceRevision(1)));
        Self {
            path,
            options,
            revision,
            last_fingerprint: Mutex::new(LastFingerprint::Unknown),
            kernel_watch: kernel,
        }
    }

    /// Returns the current revision. Call it before the file is read.
    pub(super) fn current_revision(&self) -> SourceRevision {
        *self.revision.borrow()
    }

    /// Records the fingerprint that was taken just before the file was read.
    pub(super) fn record_fingerprint(&self, fingerprint: Option<FileFingerprint>) {
        *self.last_fingerprint.lock().unwrap_or_else(PoisonError::into_inner) =
            LastFingerprint::Known(fingerprint);
    }

    pub(super) async fn wait_for_change(&self, known_revision: SourceRevision) -> SourceRevision {
        let mut revisions = self.revision.subscribe();
        while *revisions.borrow_and_update() == known_revision {
            if self.ensure_kernel_watch() {
                return std::future::pending().await;
            }
            self.poll_once().await;
            if *revisions.borrow_and_update() == known_revision
                && tokio::time::timeout(self.options.poll_interval, revisions.changed())
                    .await
                    .is_ok()
            {
                tokio::time::sleep(DEBOUNCE).await;
            }
        }
        *revisions.borrow_and_update()
    }

    pub(super) fn close_watch(&self) {
        *self.kernel_watch.lock().unwrap_or_else(PoisonError::into_inner) = KernelWatch::Closed;
    }

    /// Watches the folder if it exists and is not watched yet; returns whether the watcher is
    /// closed.
    fn ensure_kernel_watch(&self) -> bool {
        let mut kernel = self.kernel_watch.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*kernel, KernelWatch::NotStarted) {
            match self.subscribe_folder() {
                Ok(listening) => *kernel = KernelWatch::Active { _subscription: listening },
                // The folder may be created later; until then the file is polled.
                Err(error) => tracing::debug!(
                    path = %self.path.display(),
                    %error,
                    "cannot watch the file"
                ),
            }
        }
        matches!(*kernel, KernelWatch::Closed)
    }

    fn subscribe_folder(&self) -> notify::Result<FolderSubscription> {
        let (path, revision) = (Arc::clone(&self.path), Arc::clone(&self.revision));
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder_watches::subscribe_folder(folder.unwrap_or(Path::new(".")), move |event| {
            // A lost event counts as a change.
            if event.is_none_or(|event| may_change_content(event, path.file_name())) {
                revision.send_modify(|revision| revision.0 += 1);
            }
        })
    }

    /// Compares the file's metadata, and bumps the revision if the kernel reported no event.
    async fn poll_once(&self) {
        let now = self.read_fingerprint().await;
        let mut last = self.last_fingerprint.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = matches!(&*last, LastFingerprint::Known(last) if *last != now);
        *last = LastFingerprint::Known(now);
        drop(last);
        if has_changed {
            self.revision.send_modify(|revision| revision.0 += 1);
        }
    }

    async fn read_fingerprint(&self) -> Option<FileFingerprint> {
        let path = Arc::clone(&self.path);
        tokio::task::spawn_blocking(move || FileFingerprint::from_path(&path)).await.ok()?
    }
}

impl FileFingerprint {
    /// Reads the fingerprint of the file at `path`; `None` if there is no file. Blocks on the disk.
    pub(super) fn from_path(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.size(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// Returns whether `event` may change the content of the file. Read access, also our own, does not.
fn may_change_content(event: &Event, name: Option<&OsStr>) -> bool {
    let is_read_access = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_)
        | EventKind::Modify(ModifyKind::Metadata(MetadataKind::AccessTime)) => true,
        _ => false,
    };
    // Kubernetes swaps the link `..data` beside the link with the file's name.
    let is_relevant_path = |path: &std::path::PathBuf| {
        path.file_name() == name || path.file_name().is_some_and(|other| other == "..data")
    };
    !is_read_access && (event.paths.is_empty() || event.paths.iter().any(is_relevant_path))
}

#[cfg(test)]
mod tests;
