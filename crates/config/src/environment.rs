//! The environment of the process, read once. Nothing else in the program reads it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Variables by name. Has no Debug of its content: values may be secrets.
#[derive(Clone, Default)]
pub struct Environment(HashMap<String, String>);

impl Environment {
    /// As the process has it now. A variable that is not UTF-8 is left out.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// One variable, where it is set, even to nothing.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Where data belongs when nothing is said: `$XDG_DATA_HOME/toolkeep`, else
    /// `~/.local/share/toolkeep`. `None` where there is no home.
    pub fn data_home(&self) -> Option<PathBuf> {
        // The XDG specification has relative paths ignored.
        let given = self.get("XDG_DATA_HOME").map(Path::new).filter(|path| path.is_absolute());
        let home = || Some(self.home()?.join(".local/share"));
        Some(given.map(Path::to_owned).or_else(home)?.join("toolkeep"))
    }

    /// Where configurations belong: `$XDG_CONFIG_HOME/toolkeep`, else `~/.config/toolkeep`. `None` where there is no
    /// home.
    pub fn config_home(&self) -> Option<PathBuf> {
        let given = self.get("XDG_CONFIG_HOME").map(Path::new).filter(|path| path.is_absolute());
        let home = || Some(self.home()?.join(".config"));
        Some(given.map(Path::to_owned).or_else(home)?.join("toolkeep"))
    }

    /// The home folder.
    pub fn home(&self) -> Option<&Path> {
        self.get("HOME").map(Path::new).filter(|path| path.is_absolute())
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
