//! Watcher for one file: kernel events on its folder, plus polling.
//!
//! The folder is watched, because editors and Kubernetes replace the file. The waiting task does
//! the watching: there is no background task and no queue, only a revision counter.

mod folders;

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, MetadataKind, ModifyKind};
use notify::{Event, EventKind};
use tokio::sync::watch;
use tool::Revision;

use folders::Listening;

/// Default poll interval, for files without kernel events.
pub const DEFAULT_POLL: Duration = Duration::from_secs(2);
/// Delay before a change is reported, because editors write in several steps.
const SETTLE: Duration = Duration::from_millis(50);

/// Options of change detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watching {
    /// Whether kernel events are used. Some file systems (NFS, some container mounts) send none.
    pub kernel: bool,
    /// Interval between two polls.
    pub poll: Duration,
}

impl Default for Watching {
    fn default() -> Self {
        Self { kernel: true, poll: DEFAULT_POLL }
    }
}

/// Fingerprint of a file from its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Print {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

#[derive(Debug)]
pub(super) struct Watch {
    path: Arc<Path>,
    how: Watching,
    revision: Arc<watch::Sender<Revision>>,
    last: Mutex<Last>,
    kernel: Mutex<Kernel>,
}

/// Last fingerprint of the file.
#[derive(Debug)]
enum Last {
    /// The file was not read yet.
    Unseen,
    /// The last fingerprint; `None` if there was no file.
    Seen(Option<Print>),
}

#[derive(Debug)]
enum Kernel {
    Off,
    Waiting,
    Watching { _listening: Listening },
    Closed,
}

impl Watch {
    pub(super) fn new(path: Arc<Path>, how: Watching) -> Self {
        let kernel = Mutex::new(if how.kernel { Kernel::Waiting } else { Kernel::Off });
        let revision = Arc::new(watch::Sender::new(Revision(1)));
        Self { path, how, revision, last: Mutex::new(Last::Unseen), kernel }
    }

    /// Returns the current revision. Call it before the file is read.
    pub(super) fn revision(&self) -> Revision {
        *self.revision.borrow()
    }

    /// Records the fingerprint that was taken just before the file was read.
    pub(super) fn listed(&self, print: Option<Print>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Last::Seen(print);
    }

    pub(super) async fn changed(&self, seen: Revision) -> Revision {
        let mut revisions = self.revision.subscribe();
        while *revisions.borrow_and_update() == seen {
            if self.listen() {
                return std::future::pending().await;
            }
            self.look().await;
            if *revisions.borrow_and_update() == seen
                && tokio::time::timeout(self.how.poll, revisions.changed()).await.is_ok()
            {
                tokio::time::sleep(SETTLE).await;
            }
        }
        *revisions.borrow_and_update()
    }

    pub(super) fn close(&self) {
        *self.kernel.lock().unwrap_or_else(PoisonError::into_inner) = Kernel::Closed;
    }

    /// Watches the folder if it exists and is not watched yet; returns whether the watcher is
    /// closed.
    fn listen(&self) -> bool {
        let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*kernel, Kernel::Waiting) {
            match self.listening() {
                Ok(listening) => *kernel = Kernel::Watching { _listening: listening },
                // The folder may be created later; until then the file is polled.
                Err(error) => tracing::debug!(path = %self.path.display(), %error, "not watched"),
            }
        }
        matches!(*kernel, Kernel::Closed)
    }

    fn listening(&self) -> notify::Result<Listening> {
        let (path, revision) = (Arc::clone(&self.path), Arc::clone(&self.revision));
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folders::listen(folder.unwrap_or(Path::new(".")), move |event| {
            // A lost event counts as a change.
            if event.is_none_or(|event| concerns(event, path.file_name())) {
                revision.send_modify(|revision| revision.0 += 1);
            }
        })
    }

    /// Compares the file's metadata, and bumps the revision if the kernel reported no event.
    async fn look(&self) {
        let now = self.print().await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = matches!(&*last, Last::Seen(last) if *last != now);
        *last = Last::Seen(now);
        drop(last);
        if differs {
            self.revision.send_modify(|revision| revision.0 += 1);
        }
    }

    async fn print(&self) -> Option<Print> {
        let path = Arc::clone(&self.path);
        tokio::task::spawn_blocking(move || Print::of(&path)).await.ok()?
    }
}

impl Print {
    /// Reads the fingerprint of the file at `path`; `None` if there is no file. Blocks on the disk.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// Returns whether `event` may change the content of the file. Read access, also our own, does not.
fn concerns(event: &Event, name: Option<&OsStr>) -> bool {
    let read = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_)
        | EventKind::Modify(ModifyKind::Metadata(MetadataKind::AccessTime)) => true,
        _ => false,
    };
    // Kubernetes swaps the link `..data` beside the link with the file's name.
    let ours = |path: &std::path::PathBuf| {
        path.file_name() == name || path.file_name().is_some_and(|other| other == "..data")
    };
    !read && (event.paths.is_empty() || event.paths.iter().any(ours))
}

#[cfg(test)]
mod tests;
