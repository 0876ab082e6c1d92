//! Atomic replacement of a file that may be public: readers see the old content or the new.

use std::fs;
use std::io;
use std::path::Path;

use crate::private_file;

/// Writes the bytes to a temporary file, syncs it and renames it. The file keeps its permissions, a
/// new one is private; for a symbolic link, its target is replaced.
///
/// # Errors
/// Returns an error if writing fails; the file is then unchanged.
pub fn replace_file(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = match fs::canonicalize(file) {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => file.to_owned(),
        Err(error) => return Err(error),
    };
    let permissions = match fs::metadata(&file) {
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("not a regular file")),
        Ok(meta) => Some(meta.permissions()),
        Err(_) => None,
    };
    private_file::replace_with_permissions(&file, bytes, permissions)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::replace_file;

    #[test]
    fn the_file_is_replaced_with_its_permissions_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a"), folder.path().join("link"));
        replace_file(&file, b"one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        replace_file(&link, b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_cannot_be_replaced_stays() {
        let folder = tempfile::tempdir().unwrap();
        replace_file(&folder.path().join("no/folder"), b"x").unwrap_err();
        replace_file(folder.path(), b"x").unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
