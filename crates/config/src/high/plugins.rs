//! Folders of plugins, and what each is given.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tool::Trust;

/// Folders of tools that reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginsConfig {
    /// Folders whose folders are plugins, absolute.
    pub folders: Vec<PathBuf>,
    /// How far they are trusted.
    pub trust: Trust,
    /// Where settings are, absolute; `None` for the data directory's.
    pub settings: Option<PathBuf>,
    /// The interpreter of Python plugins, absolute; `None` for the system's.
    pub python: Option<PathBuf>,
    /// What each is given, by name.
    pub grants: BTreeMap<String, option_types::Grant>,
}

impl Default for PluginsConfig {
    /// None; they are the operator's own folders, and trusted as tool files are.
    fn default() -> Self {
        Self {
            folders: Vec::new(),
            trust: Trust::Full,
            settings: None,
            python: None,
            grants: BTreeMap::new(),
        }
    }
}
