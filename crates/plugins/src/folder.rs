//! A plugin's folder, read as a whole: what is in it, its hash, and copies of it.
//!
//! It is read beneath its own handle: no link is followed, so nothing outside of it is ever taken. What
//! runs is a copy of what was hashed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rooted_fs::roots::{Access, Kind, Root, RootError};
use sha2::{Digest as _, Sha256};
use tool::{Digest, Wall};

/// The manifest's name.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Files of one plugin.
const MOST_FILES: usize = 2_000;
/// Bytes of all of them.
const MOST_BYTES: usize = 32 << 20;
/// Folders in folders.
const DEPTH: usize = 16;
/// A file that changed within this time may change again without another time or size: milliseconds.
const FRESH: u64 = 5_000;

/// Why a folder cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// It cannot be read.
    #[error(transparent)]
    Root(#[from] RootError),
    /// It is more than a plugin may be.
    #[error("{0}")]
    TooMuch(String),
    /// Others than its owner decide what is in it.
    #[error("any user of this machine may change `{0}`; run `chmod o-w` on it")]
    Open(String),
    /// The copy cannot be made.
    #[error("its copy cannot be made: {0}")]
    Copy(String),
}

/// All that is in a folder. Clones share it.
#[derive(Debug, Clone)]
pub struct Content {
    /// By path from the folder, with `/`.
    pub(crate) files: BTreeMap<String, Bytes>,
    /// Links and names that cannot be used.
    pub(crate) left_out: Vec<String>,
    /// The hash of paths and bytes.
    pub(crate) digest: Digest,
}

/// What a folder looks like from outside; differs where it may have changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Print {
    files: Vec<(String, u64, u64)>,
    /// What anybody may change.
    open: Vec<String>,
    /// Whether a file is so new that another change of it could not be seen.
    pub(crate) fresh: bool,
}

/// What is no part of a plugin: what is hidden, what Python makes, what editors leave.
fn ignored(name: &str) -> bool {
    let made = Path::new(name).extension().is_some_and(|it| it == "pyc");
    name.starts_with('.') || name == "__pycache__" || made || name.ends_with('~')
}

/// One walk: every regular file with its size and time.
struct Walk {
    files: Vec<(String, u64, u64)>,
    left_out: Vec<String>,
    /// What anybody may change, the folder itself as an empty name.
    open: Vec<String>,
}

impl Walk {
    fn of(root: &Root) -> Result<Self, ContentError> {
        let mut walk = Self { files: Vec::new(), left_out: Vec::new(), open: Vec::new() };
        if root.stat("")?.open {
            walk.open.push(String::new());
        }
        walk.go(root, "", 0)?;
        Ok(walk)
    }

    fn go(&mut self, root: &Root, at: &str, depth: usize) -> Result<(), ContentError> {
        let listing = root.list(at, MOST_FILES + 1)?;
        for entry in listing.entries {
            let Some(name) = entry.name.to_str().map(str::to_owned) else {
                self.left_out.push(format!("{at}/{}", entry.name.display()));
                continue;
            };
            if ignored(&name) {
                continue;
            }
            let path = if at.is_empty() { name } else { format!("{at}/{name}") };
            if entry.meta.open && matches!(entry.meta.kind, Kind::File | Kind::Folder) {
                self.open.push(path.clone());
            }
            match entry.meta.kind {
                Kind::File => {
                    self.files.push((path, entry.meta.size, entry.meta.modified.0));
                }
                Kind::Folder if depth < DEPTH => self.go(root, &path, depth + 1)?,
                Kind::Folder | Kind::Link | Kind::Other => self.left_out.push(path),
            }
            if self.files.len() + self.left_out.len() > MOST_FILES {
                let told = format!("the folder has more than {MOST_FILES} files");
                return Err(ContentError::TooMuch(told));
            }
        }
        Ok(())
    }
}

impl Print {
    /// Looks, and reads nothing. Blocks.
    pub(crate) fn of(folder: &Path, now: Wall) -> Result<Self, ContentError> {
        let root = Root::open(folder, Access::Read)?;
        let Walk { mut files, open, .. } = Walk::of(&root)?;
        files.sort_unstable();
        let fresh = files.iter().any(|(_, _, time)| time.saturating_add(FRESH) > now.0);
        Ok(Self { files, open, fresh })
    }
}

impl Content {
    /// Reads all of `folder`. Blocks.
    ///
    /// # Errors
    /// [`ContentError`] where it cannot be read whole, or anybody may change it.
    pub fn read(folder: &Path) -> Result<Self, ContentError> {
        let root = Root::open(folder, Access::Read)?;
        let walk = Walk::of(&root)?;
        if let Some(path) = walk.open.first() {
            let path = if path.is_empty() { folder.to_owned() } else { folder.join(path) };
            return Err(ContentError::Open(path.display().to_string()));
        }
        let mut room = MOST_BYTES;
        let mut files = BTreeMap::new();
        for (path, _, _) in walk.files {
            let bytes = match root.read(&path, room) {
                Err(RootError::TooLarge { .. }) => {
                    let told = format!("the folder has more than {MOST_BYTES} bytes");
                    return Err(ContentError::TooMuch(told));
                }
                read => read?,
            };
            room -= bytes.len();
            files.insert(path, Bytes::from(bytes));
        }
        let digest = digest(&files);
        Ok(Self { files, left_out: walk.left_out, digest })
    }

    /// Takes the hash of it anew.
    pub(crate) fn hash(&mut self) {
        self.digest = digest(&self.files);
    }

    /// A file of it.
    pub(crate) fn file(&self, path: &str) -> Option<&Bytes> {
        self.files.get(path)
    }

    /// Its hash.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

fn digest(files: &BTreeMap<String, Bytes>) -> Digest {
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

/// Where copies are kept: a folder of Toolkeep's own. What an earlier process left is removed.
#[derive(Debug)]
pub struct Copies {
    folder: PathBuf,
    /// Whether it goes with this: it stands among others' temporary files.
    passing: bool,
}

/// A copy; removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) path: PathBuf,
}

impl Copies {
    /// Opens the folder, and empties it. Blocks.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Self { folder: folder.canonicalize()?, passing: false })
    }

    /// The same among temporary files, for processes of a user without rights that have no view of their
    /// own: they pass through to their copy, whose name nobody is told, and list nothing. Blocks.
    ///
    /// # Errors
    /// Where it cannot be made, or another made it first.
    pub(crate) fn passed(folder: &Path) -> io::Result<Self> {
        let hash = Sha256::digest(folder.as_os_str().as_encoded_bytes());
        let named = Digest(hash.into()).to_string();
        let name = named.get(named.len().saturating_sub(16)..).unwrap_or_default();
        let place = std::env::temp_dir().canonicalize()?.join(format!("toolkeep-plugins-{name}"));
        match fs::remove_dir_all(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Not one that is there already.
        fs::DirBuilder::new().mode(0o711).create(&place)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o711))?;
        Ok(Self { folder: place, passing: true })
    }

    /// Writes a copy of `content`. Blocks.
    pub(crate) fn write(&self, content: &Content) -> Result<Copied, ContentError> {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let copied = Copied { path: self.folder.join(name) };
        let made = copied.fill(content);
        made.map_err(|error| ContentError::Copy(error.to_string()))?;
        Ok(copied)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        if self.passing {
            // Copies that are still there keep it, until the next start.
            let _kept = fs::remove_dir(&self.folder);
        }
    }
}

impl Copied {
    fn fill(&self, content: &Content) -> io::Result<()> {
        let mut folders = fs::DirBuilder::new();
        folders.recursive(true).mode(0o755);
        folders.create(&self.path)?;
        for (path, bytes) in &content.files {
            // Names are those of a folder that was walked: none leads up.
            let at = self.path.join(path);
            if let Some(parent) = at.parent() {
                folders.create(parent)?;
            }
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(&at)?;
            file.write_all(bytes)?;
            // Whatever the mask: the cage's user reads and runs it.
            file.set_permissions(fs::Permissions::from_mode(0o755))?;
        }
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o755))
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "a copy of a plugin stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(MANIFEST), "{}").unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/a.py"), "1").unwrap();
        folder
    }

    #[test]
    fn a_hash_is_of_names_and_bytes_and_of_nothing_else() {
        let folder = folder();
        let before = Content::read(folder.path()).unwrap();
        fs::create_dir(folder.path().join("__pycache__")).unwrap();
        fs::write(folder.path().join("__pycache__/a.pyc"), "x").unwrap();
        fs::write(folder.path().join(".a.py.swp"), "x").unwrap();
        fs::write(folder.path().join("sub/a.py"), "1").unwrap();
        assert_eq!(Content::read(folder.path()).unwrap().digest, before.digest);
        fs::write(folder.path().join("sub/a.py"), "2").unwrap();
        assert_ne!(Content::read(folder.path()).unwrap().digest, before.digest);
        fs::write(folder.path().join("sub/a.py"), "1").unwrap();
        fs::rename(folder.path().join("sub/a.py"), folder.path().join("sub/b.py")).unwrap();
        assert_ne!(Content::read(folder.path()).unwrap().digest, before.digest);
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
        let content = Content::read(folder.path()).unwrap();
        assert_eq!(content.files.keys().collect::<Vec<_>>(), [MANIFEST, "sub/a.py"]);
        assert_eq!(content.left_out, ["file.py", "sub/folder"]);
    }

    #[test]
    fn a_folder_that_is_too_much_is_refused() {
        let folder = folder();
        let big = fs::File::create(folder.path().join("big")).unwrap();
        big.set_len(MOST_BYTES as u64).unwrap();
        let error = Content::read(folder.path()).unwrap_err().to_string();
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
        let now = Wall(u64::MAX);
        for (path, bad, good) in [
            ("", 0o777, 0o755),
            // The sticky bit keeps others' files, and lets anybody add some.
            ("", 0o1777, 0o700),
            ("sub", 0o757, 0o775),
            ("sub/a.py", 0o666, 0o664),
            (MANIFEST, 0o602, 0o600),
        ] {
            mode(path, bad);
            let seen = Print::of(folder.path(), now).unwrap();
            let told = Content::read(folder.path()).unwrap_err().to_string();
            let named = at(path).display().to_string();
            let fix =
                format!("any user of this machine may change `{named}`; run `chmod o-w` on it");
            assert_eq!(told, fix);
            // The control: what its owner and group alone may change is read, and that it is so now is seen.
            mode(path, good);
            assert_ne!(Print::of(folder.path(), now).unwrap(), seen);
            Content::read(folder.path()).unwrap();
        }
        // A link says that anybody may do anything, and is not taken.
        std::os::unix::fs::symlink("/etc", folder.path().join("link")).unwrap();
        assert_eq!(Content::read(folder.path()).unwrap().left_out, ["link"]);
    }

    #[test]
    fn a_copy_is_what_was_read_and_goes_with_its_owner() {
        let (folder, own) = (folder(), tempfile::tempdir().unwrap());
        fs::create_dir(own.path().join("copies")).unwrap();
        fs::write(own.path().join("copies/left"), "by another process").unwrap();
        let copies = Copies::open(&own.path().join("copies")).unwrap();
        assert!(!own.path().join("copies/left").exists());
        let content = Content::read(folder.path()).unwrap();
        fs::write(folder.path().join("sub/a.py"), "later").unwrap();
        let copied = copies.write(&content).unwrap();
        assert_eq!(fs::read_to_string(copied.path.join("sub/a.py")).unwrap(), "1");
        assert_eq!(Content::read(&copied.path).unwrap().digest, content.digest);
        let path = copied.path.clone();
        drop(copied);
        assert!(!path.exists());
    }

    #[test]
    fn a_print_says_that_it_may_not_see_the_next_change() {
        let folder = folder();
        let now = fs::metadata(folder.path().join(MANIFEST)).unwrap().modified().unwrap();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let now = u64::try_from(now).unwrap();
        assert!(Print::of(folder.path(), Wall(now)).unwrap().fresh);
        assert!(!Print::of(folder.path(), Wall(now + FRESH + 1_000)).unwrap().fresh);
    }
}
