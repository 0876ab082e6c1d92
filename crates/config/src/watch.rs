//! Follows the file and those it names: each change is read whole and told as it is, good or not.
//!
//! Folders are watched, not files, since editors and Kubernetes replace files and swap links. Where
//! the system cannot tell of changes, looking now and then finds them too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Config, Faults, ReadFile, Reading, Setting, read};

/// A change is read when nothing has happened for so long.
const QUIET: Duration = Duration::from_millis(150);
/// Or after so long, where something happens all the time.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the files are looked at where nothing is told.
const LOOK: Duration = Duration::from_secs(10);

/// The newest state of the file: whole, or all that is wrong with it. The last good one is for the
/// receiver to keep.
pub type Latest = Arc<Result<Config, Faults>>;

/// Follows what `setting` names, from its `first` reading on, until `stop`. Without a file there is
/// nothing to follow, and nothing changes.
pub fn watch(
    setting: Setting,
    first: &Reading,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> watch::Receiver<Latest> {
    let (sender, receiver) = watch::channel(Arc::new(first.clone().whole()));
    if setting.file.is_some() {
        let follower = Follower { setting, files: first.files.clone(), sender };
        tasks.spawn(follower.run(stop));
    }
    receiver
}

struct Follower {
    setting: Setting,
    /// As they were when they were last told of.
    files: Vec<ReadFile>,
    sender: watch::Sender<Latest>,
}

impl Follower {
    async fn run(mut self, stop: CancellationToken) {
        let bell = Arc::new(Notify::new());
        let mut folders = Folders::new(Arc::clone(&bell));
        let mut still = false;
        loop {
            // Watched first and looked at then: what changes in between rings the bell.
            folders = folders.follow(&self.files).await;
            if self.look(still).await {
                continue;
            }
            still = tokio::select! {
                () = stop.cancelled() => return,
                () = self.sender.closed() => return,
                () = settled(&bell) => true,
                () = tokio::time::sleep(LOOK) => false,
            };
        }
    }

    async fn read(&self) -> Option<Reading> {
        let setting = self.setting.clone();
        tokio::task::spawn_blocking(move || read(&setting)).await.ok()
    }

    /// Reads anew, and tells where the files are not what they were. Whether they are others now. Where
    /// it is not known that nobody writes just then, they must be the same a moment later.
    async fn look(&mut self, still: bool) -> bool {
        let Some(mut reading) = self.read().await else { return false };
        if reading.files == self.files {
            return false;
        }
        let begun = tokio::time::Instant::now();
        let mut still = still;
        while !still && begun.elapsed() < PATIENCE {
            tokio::time::sleep(QUIET).await;
            let Some(next) = self.read().await else { return false };
            still = next.files == reading.files;
            reading = next;
        }
        if reading.files == self.files {
            return false;
        }
        let paths =
            |files: &[ReadFile]| files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
        let others = paths(&reading.files) != paths(&self.files);
        self.files.clone_from(&reading.files);
        self.sender.send_replace(Arc::new(reading.whole()));
        others
    }
}

/// Resolves when the bell rang and then was still for a while.
async fn settled(bell: &Notify) {
    bell.notified().await;
    let still = async { while tokio::time::timeout(QUIET, bell.notified()).await.is_ok() {} };
    // Where it is never still, the files are read all the same.
    let _never_still = tokio::time::timeout(PATIENCE, still).await;
}

/// The folders that are watched; each event rings the bell.
struct Folders {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl Folders {
    fn new(bell: Arc<Notify>) -> Self {
        let ring = move |event: notify::Result<notify::Event>| {
            if event.as_ref().map_or(true, |event| is_change(event.kind)) {
                bell.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(ring);
        let tell = |error: &notify::Error| {
            tracing::warn!(%error, "changes of the configuration are seen late: files cannot be watched");
        };
        Self { watcher: watcher.inspect_err(tell).ok(), watched: BTreeSet::new() }
    }

    /// Watches the folders of these files, and no others.
    async fn follow(self, files: &[ReadFile]) -> Self {
        let paths: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
        let follow = move || self.follow_now(&paths);
        tokio::task::spawn_blocking(follow)
            .await
            .unwrap_or(Self { watcher: None, watched: BTreeSet::new() })
    }

    fn follow_now(mut self, files: &[PathBuf]) -> Self {
        let wanted: BTreeSet<PathBuf> = files.iter().flat_map(|file| folders_of(file)).collect();
        let Some(watcher) = &mut self.watcher else { return self };
        for gone in self.watched.difference(&wanted) {
            // A folder that is gone is no longer watched anyway.
            let _gone = watcher.unwatch(gone);
        }
        // Each is asked for anew: one that was removed and made again would not be watched otherwise.
        self.watched = wanted
            .into_iter()
            .filter(|folder| watcher.watch(folder, RecursiveMode::NonRecursive).is_ok())
            .collect();
        self
    }
}

/// Where a file lies, and where it lies in truth: a link is replaced in one, its content changes in
/// the other.
fn folders_of(file: &Path) -> Vec<PathBuf> {
    let real = file.canonicalize().ok();
    let both = [Some(file), real.as_deref()].into_iter().flatten();
    both.filter_map(Path::parent).map(Path::to_owned).collect()
}

/// Reading a file is told too, and our own reading must not ring the bell.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
