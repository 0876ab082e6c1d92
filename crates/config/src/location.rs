//! Where the configuration file is, where no flag and no variable names one.
//!
//! The file can start programs. A person who runs a command in a folder means that folder's file. A program that runs
//! `toolkeep mcp` may do so in any folder, such as a repository that was just cloned: there the file counts only after a
//! person has trusted it.

use std::io;
use std::path::{Path, PathBuf};

use super::Environment;

/// The name of the file.
const NAME: &str = "toolkeep.yaml";
/// The list of trusted files, a path a line.
const TRUSTED: &str = "trusted_configurations";
/// The longest such list, in bytes.
const LIST: u64 = 1 << 20;

/// Who chose the current folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// A person.
    Chosen,
    /// A program.
    Given,
}

/// The configuration file, as it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub file: Option<PathBuf>,
    /// Whether a flag or a variable names it.
    pub is_named: bool,
    /// A file in the current folder that nobody trusted, and that is not read therefore.
    pub untrusted: Option<PathBuf>,
}

impl Location {
    /// The file that is named, else the one in the current folder, else the one in the user's folder of configurations.
    pub fn find(
        named: Option<PathBuf>,
        (folder, kind): (&Path, Folder),
        environment: &Environment,
    ) -> Self {
        if named.is_some() {
            return Self { file: named, is_named: true, untrusted: None };
        }
        let here = Some(folder.join(NAME)).filter(|file| file.is_file());
        let trusted = |file: &PathBuf| kind == Folder::Chosen || is_trusted(file, environment);
        let (file, untrusted) = match here {
            Some(file) if trusted(&file) => (Some(file), None),
            other => (None, other),
        };
        let usual = || environment.config_home().map(|home| home.join(NAME));
        let file = file.or_else(|| usual().filter(|file| file.is_file()));
        Self { file, is_named: false, untrusted }
    }
}

fn is_trusted(file: &Path, environment: &Environment) -> bool {
    let (Some(list), Ok(file)) = (list(environment), file.canonicalize()) else { return false };
    let text = rooted_fs::files::read_text(&list, LIST).unwrap_or_default();
    text.lines().any(|line| Path::new(line) == file)
}

/// Trusts a configuration file by its path: `toolkeep mcp` reads it when it is started in that folder.
///
/// # Errors
/// Where the file is not there, its path holds a line break, or the list cannot be written.
pub fn trust(file: &Path, environment: &Environment) -> io::Result<PathBuf> {
    let file = file.canonicalize()?;
    let line = file.to_str().filter(|line| !line.contains('\n'));
    let line = line.ok_or_else(|| io::Error::other("its path is no line of text"))?;
    let list = list(environment).ok_or_else(|| io::Error::other("there is no home folder"))?;
    if !is_trusted(&file, environment) {
        let text = match rooted_fs::files::read_text(&list, LIST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        if let Some(folder) = list.parent() {
            std::fs::create_dir_all(folder)?;
        }
        rooted_fs::private_file::replace(&list, format!("{text}{line}\n").as_bytes())?;
    }
    Ok(file)
}

fn list(environment: &Environment) -> Option<PathBuf> {
    Some(environment.config_home()?.join(TRUSTED))
}

#[cfg(test)]
mod tests;
