//! The environment of the process, read once. No other code of the program reads it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Environment variables by name. `Debug` shows only their number: values may be secrets.
#[derive(Clone, Default)]
pub struct Environment(HashMap<String, String>);

impl Environment {
    /// Copies the variables of this process. A variable that is not UTF-8 is omitted.
    pub fn from_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// The value of a variable that is set, which may be empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The default data directory: `$XDG_DATA_HOME/toolkeep`, else `~/.local/share/toolkeep`. `None` without a home
    /// folder.
    pub fn data_home(&self) -> Option<PathBuf> {
        self.xdg_dir("XDG_DATA_HOME", ".local/share")
    }

    /// The user's configuration folder: `$XDG_CONFIG_HOME/toolkeep`, else `~/.config/toolkeep`. `None` without a home
    /// folder.
    pub fn config_home(&self) -> Option<PathBuf> {
        self.xdg_dir("XDG_CONFIG_HOME", ".config")
    }

    /// The home folder, from `HOME`.
    pub fn home_dir(&self) -> Option<&Path> {
        self.absolute_path("HOME")
    }

    fn xdg_dir(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let default = || Some(self.home_dir()?.join(below_home));
        let dir = self.absolute_path(variable).map(Path::to_owned).or_else(default)?;
        Some(dir.join("toolkeep"))
    }

    /// The path in a variable. The XDG specification ignores a relative one.
    fn absolute_path(&self, variable: &str) -> Option<&Path> {
        self.get(variable).map(Path::new).filter(|path| path.is_absolute())
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}

#[cfg(test)]
mod tests;
