//! The data directory: who holds it, and where the server in it answers.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tool::Secret;

/// What the server that holds the directory says of itself, in `server.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Its address, such as `http://127.0.0.1:8080`.
    pub url: String,
    /// Its process.
    pub pid: u32,
}

/// The data directory, held by this process until dropped.
#[derive(Debug)]
pub struct Held {
    dir: PathBuf,
    lock: File,
}

/// Why the directory could not be held.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Another process has it.
    #[error("the data directory `{}` is held by another process{}", .dir.display(),
        .by.as_ref().map(|by| format!(" ({} at {})", by.pid, by.url)).unwrap_or_default())]
    Held {
        /// The directory.
        dir: PathBuf,
        /// Which, where it serves.
        by: Option<Running>,
    },
    /// The disk says no.
    #[error("`{}`: {error}", .path.display())]
    Disk {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> DataError + '_ {
    move |error| DataError::Disk { path: path.to_owned(), error }
}

impl Held {
    /// Makes the directory where it is not there, for its owner alone, and takes it.
    ///
    /// # Errors
    /// [`DataError`].
    pub fn take(dir: &Path) -> Result<Self, DataError> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at(dir))?;
        let path = dir.join("server.lock");
        let lock = private().truncate(false).open(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), lock }),
            Err(TryLockError::WouldBlock) => {
                Err(DataError::Held { dir: dir.to_owned(), by: read_running(dir) })
            }
            Err(TryLockError::Error(error)) => Err(DataError::Disk { path, error }),
        }
    }

    /// Says where this process answers.
    ///
    /// # Errors
    /// [`DataError::Disk`].
    pub fn announce(&self, running: &Running) -> Result<(), DataError> {
        let text = tool::Json::of(running);
        self.write("server.json", text.as_str())
    }

    /// Writes a file whole, for its owner alone.
    fn write(&self, name: &str, text: &str) -> Result<(), DataError> {
        let (path, new) = (self.dir.join(name), self.dir.join(format!("{name}.new")));
        let mut file = private().truncate(true).open(&new).map_err(at(&new))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(at(&new))?;
        std::fs::rename(&new, &path).map_err(at(&path))
    }

    /// Keeps a key in its own file. A file that is there is never written over.
    ///
    /// # Errors
    /// [`DataError::Disk`], also where the file is there.
    pub fn keep_key(&self, name: &str, key: &Secret) -> Result<PathBuf, DataError> {
        let path = self.dir.join(name);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(at(&path))?;
        file.write_all(format!("{}\n", key.open()).as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(at(&path))?;
        Ok(path)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Nobody answers here any more; a leftover would only mislead. The lock is what counts.
        drop(std::fs::remove_file(self.dir.join("server.json")));
        drop(self.lock.unlock());
    }
}

/// The server that holds the directory, where one does.
pub fn running(dir: &Path) -> Option<Running> {
    let lock = File::open(dir.join("server.lock")).ok()?;
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read_running(dir),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

/// A key kept in the directory.
///
/// # Errors
/// [`DataError::Disk`].
pub fn key(dir: &Path, name: &str) -> Result<Secret, DataError> {
    let path = dir.join(name);
    let text = std::fs::read_to_string(&path).map_err(at(&path))?;
    Ok(Secret::new(text.trim()))
}

fn read_running(dir: &Path) -> Option<Running> {
    let mut text = String::new();
    let mut file = File::open(dir.join("server.json")).ok()?;
    file.rewind().ok()?;
    file.take(4_096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{DataError, Held, Running, key, running};

    #[test]
    fn one_process_holds_it_and_says_where_it_answers() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        assert_eq!(running(&data), None);
        let held = Held::take(&data).unwrap();
        let here = Running { url: "http://127.0.0.1:1".to_owned(), pid: 7 };
        held.announce(&here).unwrap();
        assert_eq!(running(&data), Some(here.clone()));
        let refused = Held::take(&data).unwrap_err();
        assert!(matches!(&refused, DataError::Held { by: Some(by), .. } if *by == here), "{refused}");
        drop(held);
        assert_eq!(running(&data), None);
        drop(Held::take(&data).unwrap());
    }

    #[test]
    fn keys_are_for_their_owner_alone_and_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let held = Held::take(&dir.path().join("data")).unwrap();
        let secret = |text: &str| tool::Secret::new(text);
        let path = held.keep_key("owner.key", &secret("tk_a")).unwrap();
        assert!(held.keep_key("owner.key", &secret("tk_b")).is_err());
        assert_eq!(key(path.parent().unwrap(), "owner.key").unwrap().open(), "tk_a");
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }
}
