//! Private files: their mode is 0600 before the first byte is written, regardless of the umask.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Creates a new file with mode 0600 for writing.
///
/// # Errors
/// If the file exists or cannot be created.
pub fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)
}

/// Replaces a file atomically with these bytes and mode 0600: readers see the old or the new bytes,
/// even after power loss.
///
/// # Errors
/// If the file cannot be written; it is unchanged then.
pub fn replace_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with_permissions(path, bytes, None)
}

/// Replaces a file as [`replace_atomically`] does, and then sets other permissions, such as those
/// of the previous file.
///
/// # Errors
/// As [`replace_atomically`].
pub fn replace_with_permissions(
    path: &Path,
    bytes: &[u8],
    permissions: Option<Permissions>,
) -> io::Result<()> {
    let beside = temporary_path(path)?;
    let written =
        write_synced(&beside, bytes, permissions).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        drop(fs::remove_file(&beside));
        return written;
    }
    sync_folder(path)
}

/// Creates a new file with these bytes and mode 0600 atomically.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if the file exists; otherwise the error of writing.
pub fn create_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = temporary_path(path)?;
    let written =
        write_synced(&beside, bytes, None).and_then(|()| match fs::hard_link(&beside, path) {
            // The file system has no hard links.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.exists() => {
                fs::rename(&beside, path)
            }
            linked => linked,
        });
    // Already gone if it was renamed.
    drop(fs::remove_file(&beside));
    written.and_then(|()| sync_folder(path))
}

fn write_synced(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let mut file = create_private(path)?;
    file.write_all(bytes)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.sync_all()
}

/// Returns a random temporary name in the same folder.
///
/// # Errors
/// Returns an error if the path has no file name, or the system has no random bytes.
pub fn temporary_path(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it is not a file name"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    hidden.push(format!(".{:032x}.new", u128::from_be_bytes(random)));
    Ok(path.with_file_name(hidden))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::{create_atomically, replace_atomically, replace_with_permissions};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_its_owners_alone_whatever_the_umask_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // The control: the plain way takes the umask's mode.
        fs::write(path("plain"), "x").unwrap();
        assert_ne!(mode(&path("plain")), 0o600);
        replace_atomically(&path("replaced"), b"a").unwrap();
        replace_atomically(&path("replaced"), b"b").unwrap();
        create_atomically(&path("created"), b"c").unwrap();
        let there = create_atomically(&path("created"), b"d").unwrap_err();
        assert_eq!(there.kind(), io::ErrorKind::AlreadyExists);
        for (name, bytes) in [("replaced", "b"), ("created", "c")] {
            assert_eq!(fs::read_to_string(path(name)).unwrap(), bytes);
            assert_eq!(mode(&path(name)), 0o600, "{name}");
        }
        replace_with_permissions(&path("replaced"), b"e", Some(Permissions::from_mode(0o640)))
            .unwrap();
        assert_eq!(mode(&path("replaced")), 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left beside them");
    }
}
