//! Discovery of the configuration file when no flag and no variable names one.
//!
//! The file can start programs. A person who runs a command in a folder means the file of that folder. A program can run
//! `toolkeep mcp` in any folder, such as a cloned repository. Its file is only read after a person has trusted it.

use std::io;
use std::path::{Path, PathBuf};

use super::Environment;

/// The name of the configuration file.
const CONFIG_FILE_NAME: &str = "toolkeep.yaml";
/// The name of the list of trusted files, one path a line.
const TRUST_LIST_NAME: &str = "trusted_configurations";
/// The longest list of trusted files, in bytes.
const MAX_TRUST_LIST_BYTES: u64 = 1 << 20;

/// The origin of a command in the current folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOrigin {
    /// A person chose the folder.
    Person,
    /// A program chose the folder, such as an MCP client.
    Program,
}

/// The result of looking for a configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigDiscovery {
    /// The file; `None` where there is none.
    pub file: Option<PathBuf>,
    /// Whether a flag or a variable names it.
    pub is_named: bool,
    /// A file in the current folder that is ignored, since no person has trusted it.
    pub untrusted_file: Option<PathBuf>,
}

impl ConfigDiscovery {
    /// Finds the named file, else the file in the current folder, else the one in the user's configuration folder.
    pub fn find_file(
        named_file: Option<PathBuf>,
        (folder, origin): (&Path, CommandOrigin),
        environment: &Environment,
    ) -> Self {
        if named_file.is_some() {
            return Self { file: named_file, is_named: true, untrusted_file: None };
        }
        let local = Some(folder.join(CONFIG_FILE_NAME)).filter(|file| file.is_file());
        let is_allowed =
            |file: &PathBuf| origin == CommandOrigin::Person || is_trusted(file, environment);
        let (file, untrusted_file) = match local {
            Some(file) if is_allowed(&file) => (Some(file), None),
            other => (None, other),
        };
        let user_file = || environment.config_home().map(|home| home.join(CONFIG_FILE_NAME));
        let file = file.or_else(|| user_file().filter(|file| file.is_file()));
        Self { file, is_named: false, untrusted_file }
    }
}

fn is_trusted(file: &Path, environment: &Environment) -> bool {
    let (Some(list), Ok(file)) = (trust_list(environment), file.canonicalize()) else {
        return false;
    };
    let text = rooted_fs::regular_file::read_text(&list, MAX_TRUST_LIST_BYTES).unwrap_or_default();
    text.lines().any(|line| Path::new(line) == file)
}

/// Trusts a configuration file by its path, so that `toolkeep mcp` reads it in that folder.
///
/// # Errors
/// The file does not exist, its path has a line break, or the list cannot be written.
pub fn trust_file(file: &Path, environment: &Environment) -> io::Result<PathBuf> {
    let file = file.canonicalize()?;
    let line = file.to_str().filter(|line| !line.contains('\n'));
    let line =
        line.ok_or_else(|| io::Error::other("its path is not UTF-8 or contains a line break"))?;
    let list = trust_list(environment).ok_or_else(|| io::Error::other("HOME is not set"))?;
    if !is_trusted(&file, environment) {
        let text = match rooted_fs::regular_file::read_text(&list, MAX_TRUST_LIST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other?,
        };
        if let Some(folder) = list.parent() {
            std::fs::create_dir_all(folder)?;
        }
        rooted_fs::private_file::replace_atomically(&list, format!("{text}{line}\n").as_bytes())?;
    }
    Ok(file)
}

fn trust_list(environment: &Environment) -> Option<PathBuf> {
    Some(environment.config_home()?.join(TRUST_LIST_NAME))
}

#[cfg(test)]
mod tests;
