//! Content of a plugin's folder, its hash, and the copies that run.
//!
//! The folder is read relative to its handle and no link is followed, so no outside file is read.
//! The running code is a copy of the hashed content.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rooted_fs::rooted_dir::{AccessMode, FileAccessError, FileKind, RootedDir};
use sha2::{Digest as _, Sha256};
use tool::{Digest, WallTime};

/// File name of a plugin's manifest.
pub(crate) const MANIFEST_FILE: &str = "manifest.json";
/// Maximum number of files of one plugin.
const MAX_FILES: usize = 2_000;
/// Maximum total size of the files, in bytes.
const MAX_FOLDER_BYTES: usize = 32 << 20;
/// Maximum depth of nested folders.
const MAX_DEPTH: usize = 16;
/// Time after a change, in milliseconds, within which another one may leave size and time
/// unchanged.
const MTIME_RESOLUTION_MS: u64 = 5_000;

/// Error of reading or copying a plugin folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// It cannot be read.
    #[error(transparent)]
    FolderAccess(#[from] FileAccessError),
    /// The folder exceeds the limits of a plugin.
    #[error("{0}")]
    TooLarge(String),
    /// Users other than the owner can write to the folder.
    #[error("`{0}` is writable by other users of this machine; run `chmod o-w` on it")]
    WorldWritable(String),
    /// The copy cannot be made.
    #[error("it cannot be copied: {0}")]
    CopyFailed(String),
}

/// Content of a plugin folder. Clones share it.
#[derive(Debug, Clone)]
pub struct FolderContent {
    /// By path from the folder, with `/`.
    pub(crate) files: BTreeMap<String, Bytes>,
    /// Links and names that cannot be used.
    pub(crate) skipped: Vec<String>,
    /// The hash of paths and bytes.
    pub(crate) digest: Digest,
}

/// Fingerprint of a folder: names, sizes and times. It differs if the content may have changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FolderFingerprint {
    files: Vec<FileStat>,
    /// Paths that any user can write.
    world_writable: Vec<String>,
    /// Whether a file is so new that its next change could be undetectable.
    pub(crate) is_recent: bool,
}

/// Returns whether a file is ignored: hidden files, Python caches and editor backups.
fn is_ignored(name: &str) -> bool {
    let made = Path::new(name).extension().is_some_and(|it| it == "pyc");
    name.starts_with('.') || name == "__pycache__" || made || name.ends_with('~')
}

/// Path, size and time of a regular file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FileStat {
    path: String,
    size: u64,
    /// Time of the last change, in milliseconds.
    modified_ms: u64,
}

/// One walk: every regular file with its size and time.
struct FolderWalk {
    files: Vec<FileStat>,
    skipped: Vec<String>,
    /// Paths that any user can write; the folder itself is an empty name.
    world_writable: Vec<String>,
}

impl FolderWalk {
    fn walk_root(root: &RootedDir) -> Result<Self, FolderError> {
        let mut walk = Self { files: Vec::new(), skipped: Vec::new(), world_writable: Vec::new() };
        if root.read_metadata("")?.is_world_writable {
            walk.world_writable.push(String::new());
        }
        walk.walk_dir(root, "", 0)?;
        Ok(walk)
    }

    fn walk_dir(&mut self, root: &RootedDir, at: &str, depth: usize) -> Result<(), FolderError> {
        let listing = root.list_dir(at, MAX_FILES + 1)?;
        for entry in listing.entries {
            let Some(name) = entry.name.to_str().map(str::to_owned) else {
                self.skipped.push(format!("{at}/{}", entry.name.display()));
                continue;
            };
            if is_ignored(&name) {
                continue;
            }
            let path = if at.is_empty() { name } else { format!("{at}/{name}") };
            if entry.metadata.is_world_writable
                && matches!(entry.metadata.kind, FileKind::File | FileKind::Directory)
            {
                self.world_writable.push(path.clone());
            }
            match entry.metadata.kind {
                FileKind::File => {
                    let (size, modified_ms) = (entry.metadata.size, entry.metadata.modified.0);
                    self.files.push(FileStat { path, size, modified_ms });
                }
                FileKind::Directory if depth < MAX_DEPTH => {
                    self.walk_dir(root, &path, depth + 1)?;
                }
                FileKind::Directory | FileKind::Symlink | FileKind::Other => {
                    self.skipped.push(path);
                }
            }
            if self.files.len() + self.skipped.len() > MAX_FILES {
                let message = format!("the folder has more than {MAX_FILES} files");
                return Err(FolderError::TooLarge(message));
            }
        }
        Ok(())
    }
}

impl FolderFingerprint {
    /// Scans names, sizes and times without reading files. Blocks.
    pub(crate) fn scan_folder(folder: &Path, now: WallTime) -> Result<Self, FolderError> {
        let root = RootedDir::open_root(folder, AccessMode::ReadOnly)?;
        let FolderWalk { mut files, world_writable: open, .. } = FolderWalk::walk_root(&root)?;
        files.sort_unstable();
        let fresh =
            files.iter().any(|file| file.modified_ms.saturating_add(MTIME_RESOLUTION_MS) > now.0);
        Ok(Self { files, world_writable: open, is_recent: fresh })
    }
}

impl FolderContent {
    /// Reads all of `folder`. Blocks.
    ///
    /// # Errors
    /// [`FolderError`] if it cannot be read completely, or if any user can write to it.
    pub fn read_folder(folder: &Path) -> Result<Self, FolderError> {
        let root = RootedDir::open_root(folder, AccessMode::ReadOnly)?;
        let walk = FolderWalk::walk_root(&root)?;
        if let Some(path) = walk.world_writable.first() {
            let path = if path.is_empty() { folder.to_owned() } else { folder.join(path) };
            return Err(FolderError::WorldWritable(path.display().to_string()));
        }
        let mut remaining_bytes = MAX_FOLDER_BYTES;
        let mut files = BTreeMap::new();
        for FileStat { path, .. } in walk.files {
            let bytes = match root.read_file(&path, remaining_bytes) {
                Err(FileAccessError::TooLarge { .. }) => {
                    let message = format!("the folder has more than {MAX_FOLDER_BYTES} bytes");
                    return Err(FolderError::TooLarge(message));
                }
                read => read?,
            };
            remaining_bytes -= bytes.len();
            files.insert(path, Bytes::from(bytes));
        }
        let digest = hash_files(&files);
        Ok(Self { files, skipped: walk.skipped, digest })
    }

    /// Recomputes the hash of the content.
    pub(crate) fn rehash(&mut self) {
        self.digest = hash_files(&self.files);
    }

    /// Returns the content of a file.
    pub(crate) fn file_content(&self, path: &str) -> Option<&Bytes> {
        self.files.get(path)
    }

    /// Returns the hash of the content.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

fn hash_files(files: &BTreeMap<String, Bytes>) -> Digest {
    let mut hash = Sha256::new();
    for (path, bytes) in files {
        // Lengths first, so that no two folders have one text.
        for part in [path.as_bytes(), bytes.as_ref()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    Digest(hash.finalize().into())
}

/// Directory of plugin copies, owned by Toolkeep. Leftovers of an earlier process are removed.
#[derive(Debug)]
pub struct CopyStore {
    folder: PathBuf,
    /// Whether it is removed on drop, because it is a folder for temporary files.
    is_temporary: bool,
}

/// A copy; removed when it is dropped.
#[derive(Debug)]
pub(crate) struct FolderCopy {
    pub(crate) path: PathBuf,
}

impl CopyStore {
    /// Creates an empty folder, and removes an existing one. Blocks.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn open_empty(folder: &Path) -> io::Result<Self> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Self { folder: folder.canonicalize()?, is_temporary: false })
    }

    /// Creates a folder among temporary files, for processes that run as an unprivileged user
    /// without namespaces. They can traverse it to their copy, whose name is secret, but cannot
    /// list it. Blocks.
    ///
    /// # Errors
    /// The folder cannot be created, or another process created it first.
    pub(crate) fn open_in_temp_dir(folder: &Path) -> io::Result<Self> {
        let hash = Sha256::digest(folder.as_os_str().as_encoded_bytes());
        let named = Digest(hash.into()).to_string();
        let name = named.get(named.len().saturating_sub(16)..).unwrap_or_default();
        let place = std::env::temp_dir().canonicalize()?.join(format!("toolkeep-plugins-{name}"));
        match fs::remove_dir_all(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Fails if the folder already exists.
        fs::DirBuilder::new().mode(0o711).create(&place)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o711))?;
        Ok(Self { folder: place, is_temporary: true })
    }

    /// Writes a copy of `content`. Blocks.
    pub(crate) fn copy_content(&self, content: &FolderContent) -> Result<FolderCopy, FolderError> {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let copy = FolderCopy { path: self.folder.join(name) };
        let made = copy.write_files(content);
        made.map_err(|error| FolderError::CopyFailed(error.to_string()))?;
        Ok(copy)
    }
}

impl Drop for CopyStore {
    fn drop(&mut self) {
        if self.is_temporary {
            // Copies that are still there keep it, until the next start.
            let _kept = fs::remove_dir(&self.folder);
        }
    }
}

impl FolderCopy {
    fn write_files(&self, content: &FolderContent) -> io::Result<()> {
        let mut folders = fs::DirBuilder::new();
        folders.recursive(true).mode(0o755);
        folders.create(&self.path)?;
        for (path, bytes) in &content.files {
            // Paths come from the folder scan, so none contains `..`.
            let at = self.path.join(path);
            if let Some(parent) = at.parent() {
                folders.create(parent)?;
            }
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(&at)?;
            file.write_all(bytes)?;
            // Independent of the umask, because the sandbox user reads and executes it.
            file.set_permissions(fs::Permissions::from_mode(0o755))?;
        }
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o755))
    }
}

impl Drop for FolderCopy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::debug!(
                path = %self.path.display(),
                %error,
                "cannot remove a copy of a plugin"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(MANIFEST_FILE), "{}").unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/a.py"), "1").unwrap();
        folder
    }

    #[test]
    fn a_hash_is_of_names_and_bytes_and_of_nothing_else() {
        let folder = folder();
        let before = FolderContent::read_folder(folder.path()).unwrap();
        fs::create_dir(folder.path().join("__pycache__")).unwrap();
        fs::write(folder.path().join("__pycache__/a.pyc"), "x").unwrap();
        fs::write(folder.path().join(".a.py.swp"), "x").unwrap();
        fs::write(folder.path().join("sub/a.py"), "1").unwrap();
        assert_eq!(FolderContent::read_folder(folder.path()).unwrap().digest, before.digest);
        fs::write(folder.path().join("sub/a.py"), "2").unwrap();
        assert_ne!(FolderContent::read_folder(folder.path()).unwrap().digest, before.digest);
        fs::write(folder.path().join("sub/a.py"), "1").unwrap();
        fs::rename(folder.path().join("sub/a.py"), folder.path().join("sub/b.py")).unwrap();
        assert_ne!(FolderContent::read_folder(folder.path()).unwrap().digest, before.digest);
    }

    #[test]
    fn a_link_out_of_the_folder_is_not_followed_s12() {
        let (folder, outside) = (folder(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "hunter2").unwrap();
        let links = [("file.py", "secret"), ("sub/folder", "")];
        for (name, to) in links {
            let to = outside.path().join(to);
            std::os::unix::fs::symlink(&to, folder.path().join(name)).unwrap();
            // The control: the naive way reads it.
            assert!(fs::metadata(folder.path().join(name)).is_ok());
        }
        let content = FolderContent::read_folder(folder.path()).unwrap();
        assert_eq!(content.files.keys().collect::<Vec<_>>(), [MANIFEST_FILE, "sub/a.py"]);
        assert_eq!(content.skipped, ["file.py", "sub/folder"]);
    }

    #[test]
    fn a_folder_that_is_too_much_is_refused() {
        let folder = folder();
        let big = fs::File::create(folder.path().join("big")).unwrap();
        big.set_len(MAX_FOLDER_BYTES as u64).unwrap();
        let error = FolderContent::read_folder(folder.path()).unwrap_err().to_string();
        assert_eq!(error, "the folder has more than 33554432 bytes");
    }

    #[test]
    fn a_folder_that_anybody_may_change_is_refused() {
        let folder = folder();
        let at = |path: &str| match path {
            "" => folder.path().to_owned(),
            path => folder.path().join(path),
        };
        let mode = |path: &str, mode| {
            fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        let now = WallTime(u64::MAX);
        for (path, bad, good) in [
            ("", 0o777, 0o755),
            // The sticky bit keeps others' files, and lets anybody add some.
            ("", 0o1777, 0o700),
            ("sub", 0o757, 0o775),
            ("sub/a.py", 0o666, 0o664),
            (MANIFEST_FILE, 0o602, 0o600),
        ] {
            mode(path, bad);
            let seen = FolderFingerprint::scan_folder(folder.path(), now).unwrap();
            let told = FolderContent::read_folder(folder.path()).unwrap_err().to_string();
            let named = at(path).display().to_string();
            let fix = format!(
                "`{named}` is writable by other users of this machine; run `chmod o-w` on \
                    it"
            );
            assert_eq!(told, fix);
            // The control: what its owner and group alone may change is read, and that it is so now is seen.
            mode(path, good);
            assert_ne!(FolderFingerprint::scan_folder(folder.path(), now).unwrap(), seen);
            FolderContent::read_folder(folder.path()).unwrap();
        }
        // A link says that anybody may do anything, and is not taken.
        std::os::unix::fs::symlink("/etc", folder.path().join("link")).unwrap();
        assert_eq!(FolderContent::read_folder(folder.path()).unwrap().skipped, ["link"]);
    }

    #[test]
    fn a_copy_is_what_was_read_and_goes_with_its_owner() {
        let (folder, own) = (folder(), tempfile::tempdir().unwrap());
        fs::create_dir(own.path().join("copies")).unwrap();
        fs::write(own.path().join("copies/left"), "by another process").unwrap();
        let copies = CopyStore::open_empty(&own.path().join("copies")).unwrap();
        assert!(!own.path().join("copies/left").exists());
        let content = FolderContent::read_folder(folder.path()).unwrap();
        fs::write(folder.path().join("sub/a.py"), "later").unwrap();
        let copied = copies.copy_content(&content).unwrap();
        assert_eq!(fs::read_to_string(copied.path.join("sub/a.py")).unwrap(), "1");
        assert_eq!(FolderContent::read_folder(&copied.path).unwrap().digest, content.digest);
        let path = copied.path.clone();
        drop(copied);
        assert!(!path.exists());
    }

    #[test]
    fn a_print_says_that_it_may_not_see_the_next_change() {
        let folder = folder();
        let now = fs::metadata(folder.path().join(MANIFEST_FILE)).unwrap().modified().unwrap();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let now = u64::try_from(now).unwrap();
        assert!(FolderFingerprint::scan_folder(folder.path(), WallTime(now)).unwrap().is_recent);
        assert!(
            !FolderFingerprint::scan_folder(
                folder.path(),
                WallTime(now + MTIME_RESOLUTION_MS + 1_000)
            )
            .unwrap()
            .is_recent
        );
    }
}
