//! Lookup of the program that a command would start, without starting it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Search path if there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Reason why a command cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The working directory does not exist.
    #[error("its working directory `{0}` does not exist")]
    NoFolder(PathBuf),
    /// The path does not exist.
    #[error("the file `{0}` does not exist")]
    NoFile(PathBuf),
    /// The path, or the first match in `PATH`, is not executable.
    #[error("`{0}` is not executable")]
    NotExecutable(PathBuf),
    /// No folder of `PATH` contains the name.
    #[error("no folder in `PATH` has a program of this name")]
    NotInPath,
}

/// Finds the program that a command starts, as the kernel and the standard library do: a path
/// relative to the working directory, and a name in the folders of `path`. Reads the disk.
///
/// # Errors
/// Fails if there is none, or if it is not executable.
pub fn find_program(
    command: &str,
    path: Option<&OsStr>,
    cwd: &Path,
) -> Result<PathBuf, LookupError> {
    if !cwd.is_dir() {
        return Err(LookupError::NoFolder(cwd.to_owned()));
    }
    if command.contains('/') {
        let file = cwd.join(command);
        return match file.exists() {
            false => Err(LookupError::NoFile(file)),
            true if is_executable(&file) => Ok(file),
            true => Err(LookupError::NotExecutable(file)),
        };
    }
    let path = path.unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
    let files = || std::env::split_paths(path).map(|folder| cwd.join(folder).join(command));
    if let Some(file) = files().find(|file| is_executable(file)) {
        return Ok(file);
    }
    Err(files()
        .find(|file| file.is_file())
        .map_or(LookupError::NotInPath, LookupError::NotExecutable))
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::{LookupError, find_program};

    #[test]
    fn a_command_is_found_as_it_would_be_started_or_it_is_said_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path();
        let bin = cwd.join("bin");
        fs::create_dir(&bin).unwrap();
        for (name, mode) in [("runs", 0o755), ("plain", 0o644)] {
            fs::write(bin.join(name), "#!/bin/sh\n").unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = format!("/nowhere:{}", bin.display());
        let found = |command: &str| find_program(command, Some(OsStr::new(&path)), cwd);
        assert_eq!(found("runs"), Ok(bin.join("runs")));
        assert_eq!(found("bin/runs"), Ok(cwd.join("bin/runs")));
        assert_eq!(found("./bin/runs").unwrap(), cwd.join("./bin/runs"));
        assert_eq!(found("plain"), Err(LookupError::NotExecutable(bin.join("plain"))));
        assert_eq!(found("bin/plain"), Err(LookupError::NotExecutable(cwd.join("bin/plain"))));
        assert_eq!(found("./bin"), Err(LookupError::NotExecutable(cwd.join("./bin"))));
        assert_eq!(found("gone"), Err(LookupError::NotInPath));
        assert_eq!(found("./gone"), Err(LookupError::NoFile(cwd.join("./gone"))));
        let gone = cwd.join("gone");
        assert_eq!(find_program("sh", None, &gone), Err(LookupError::NoFolder(gone)));
        // A relative folder of `PATH` is relative to the working directory.
        assert_eq!(find_program("runs", Some(OsStr::new("bin")), cwd), Ok(bin.join("runs")));
        assert!(find_program("sh", None, cwd).is_ok());
    }
}
