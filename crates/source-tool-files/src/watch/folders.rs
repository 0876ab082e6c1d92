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
type Ear = Arc<dyn Fn(Option<&Event>) + Send + Sync>;
/// Device and inode of a folder, so that two paths to one folder are equal.
type Id = (u64, u64);

static WATCHED: Mutex<Watched> = Mutex::new(Watched { watcher: None, last: 0, folders: None });

/// Registry of the watched folders.
struct Watched {
    watcher: Option<RecommendedWatcher>,
    /// Id of the last subscription.
    last: u64,
    folders: Option<Arc<Mutex<Folders>>>,
}

type Folders = HashMap<Id, Folder>;

struct Folder {
    /// Path of the first subscription, as events name it.
    path: PathBuf,
    ears: HashMap<u64, Ear>,
}

/// Subscription to a folder; unsubscribes when dropped.
pub(super) struct Listening {
    folder: Id,
    number: u64,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listening")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Subscribes `ear` to the events of the folder at `path`.
///
/// # Errors
/// The folder does not exist, or the kernel has no more watches.
pub(super) fn listen(
    path: &Path,
    ear: impl Fn(Option<&Event>) + Send + Sync + 'static,
) -> notify::Result<Listening> {
    let metadata = std::fs::metadata(path).map_err(notify::Error::io)?;
    let id = (metadata.dev(), metadata.ino());
    let mut watched = lock(&WATCHED);
    let folders = Arc::clone(watched.folders.get_or_insert_default());
    watched.last += 1;
    let number = watched.last;
    let is_new = {
        let mut folders = lock(&folders);
        let blank = || Folder { path: path.to_owned(), ears: HashMap::new() };
        let folder = folders.entry(id).or_insert_with(blank);
        folder.ears.insert(number, Arc::new(ear));
        folder.ears.len() == 1
    };
    if is_new && let Err(error) = watched.watch(path, folders) {
        watched.leave(id, number);
        return Err(error);
    }
    Ok(Listening { folder: id, number })
}

impl Watched {
    fn watch(&mut self, path: &Path, folders: Arc<Mutex<Folders>>) -> notify::Result<()> {
        if self.watcher.is_none() {
            let tell = move |event: notify::Result<Event>| tell(&folders, event.ok().as_ref());
            self.watcher = Some(notify::recommended_watcher(tell)?);
        }
        let Some(watcher) = &mut self.watcher else { return Ok(()) };
        watcher.watch(path, RecursiveMode::NonRecursive)
    }

    /// Removes a subscription. The last one of a folder removes the watch, the last one of all the
    /// thread.
    fn leave(&mut self, id: Id, number: u64) {
        let Some(folders) = &self.folders else { return };
        let mut folders = lock(folders);
        let Some(folder) = folders.get_mut(&id) else { return };
        folder.ears.remove(&number);
        if !folder.ears.is_empty() {
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

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&WATCHED).leave(self.folder, self.number);
    }
}

fn tell(folders: &Mutex<Folders>, event: Option<&Event>) {
    let ears: Vec<Ear> = {
        let folders = lock(folders);
        let concerned = folders.values().filter(|folder| folder.is_concerned(event));
        concerned.flat_map(|folder| folder.ears.values().cloned()).collect()
    };
    for ear in ears {
        ear(event);
    }
}

impl Folder {
    fn is_concerned(&self, event: Option<&Event>) -> bool {
        let Some(event) = event.filter(|event| !event.paths.is_empty()) else { return true };
        event.paths.iter().any(|path| path.parent() == Some(&self.path) || *path == self.path)
    }
}
