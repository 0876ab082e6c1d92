//! Kernel watches of the process, one per folder, shared by all tool files.
//!
//! There is one watch instance and one thread, however many files there are: a process may have
//! only about a hundred instances.
//!
//! Callbacks never run while the registry is locked, and the watch instance is not used while
//! callbacks run.

use std::collections::HashMap;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};

/// Callback for an event; `None` if events were lost.
type EventCallback = Arc<dyn Fn(Option<&Event>) + Send + Sync>;
/// Device and inode of a folder, so that two paths to one folder are equal.
type FolderId = (u64, u64);

static WATCH_REGISTRY: Mutex<WatchRegistry> =
    Mutex::new(WatchRegistry { watcher: None, last_subscription_id: 0, folders: None });

/// Registry of the watched folders.
struct WatchRegistry {
    watcher: Option<RecommendedWatcher>,
    /// Id of the last subscription.
    last_subscription_id: u64,
    folders: Option<Arc<Mutex<FolderMap>>>,
}

type FolderMap = HashMap<FolderId, WatchedFolder>;

struct WatchedFolder {
    /// Path of the first subscription, as events name it.
    path: PathBuf,
    callbacks: HashMap<u64, EventCallback>,
}

/// Subscription to a folder; unsubscribes when dropped.
pub(super) struct FolderSubscription {
    folder_id: FolderId,
    subscription_id: u64,
}

impl fmt::Debug for FolderSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listening")
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Subscribes `callback` to the events of the folder at `path`.
///
/// # Errors
/// The folder does not exist, or the kernel has no more watches.
pub(super) fn subscribe_folder(
    path: &Path,
    callback: impl Fn(Option<&Event>) + Send + Sync + 'static,
) -> notify::Result<FolderSubscription> {
    let metadata = std::fs::metadata(path).map_err(notify::Error::io)?;
    let id = (metadata.dev(), metadata.ino());
    let mut registry = lock_mutex(&WATCH_REGISTRY);
    let folders = Arc::clone(registry.folders.get_or_insert_default());
    registry.last_subscription_id += 1;
    let number = registry.last_subscription_id;
    let is_new = {
        let mut folders = lock_mutex(&folders);
        let new_folder = || WatchedFolder { path: path.to_owned(), callbacks: HashMap::new() };
        let folder = folders.entry(id).or_insert_with(new_folder);
        folder.callbacks.insert(number, Arc::new(callback));
        folder.callbacks.len() == 1
    };
    if is_new && let Err(error) = registry.watch_folder(path, folders) {
        registry.remove_subscription(id, number);
        return Err(error);
    }
    Ok(FolderSubscription { folder_id: id, subscription_id: number })
}

impl WatchRegistry {
    fn watch_folder(&mut self, path: &Path, folders: Arc<Mutex<FolderMap>>) -> notify::Result<()> {
        if self.watcher.is_none() {
            let tell =
                move |event: notify::Result<Event>| dispatch_event(&folders, event.ok().as_ref());
            self.watcher = Some(notify::recommended_watcher(tell)?);
        }
        let Some(watcher) = &mut self.watcher else { return Ok(()) };
        watcher.watch(path, RecursiveMode::NonRecursive)
    }

    /// Removes a subscription. The last one of a folder removes the watch, the last one of all the
    /// thread.
    fn remove_subscription(&mut self, id: FolderId, number: u64) {
        let Some(folders) = &self.folders else { return };
        let mut folders = lock_mutex(folders);
        let Some(folder) = folders.get_mut(&id) else { return };
        folder.callbacks.remove(&number);
        if !folder.callbacks.is_empty() {
            return;
        }
        let path = std::mem::take(&mut folder.path);
        folders.remove(&id);
        let none = folders.is_empty();
        drop(folders);
        if none {
            self.watcher = None;
        } else if let Some(watcher) = &mut self.watcher {
            // The watch of a deleted folder has ended already.
            let _gone = watcher.unwatch(&path);
        }
    }
}

impl Drop for FolderSubscription {
    fn drop(&mut self) {
        lock_mutex(&WATCH_REGISTRY).remove_subscription(self.folder_id, self.subscription_id);
    }
}

fn dispatch_event(folders: &Mutex<FolderMap>, event: Option<&Event>) {
    let callbacks: Vec<EventCallback> = {
        let folders = lock_mutex(folders);
        let matching = folders.values().filter(|folder| folder.is_affected(event));
        matching.flat_map(|folder| folder.callbacks.values().cloned()).collect()
    };
    for callback in callbacks {
        callback(event);
    }
}

impl WatchedFolder {
    fn is_affected(&self, event: Option<&Event>) -> bool {
        let Some(event) = event.filter(|event| !event.paths.is_empty()) else { return true };
        event.paths.iter().any(|path| path.parent() == Some(&self.path) || *path == self.path)
    }
}
