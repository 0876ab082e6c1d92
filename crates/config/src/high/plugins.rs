//! Folders of plugins, and what each is given.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use tool::Trust;

use crate::shown::show;

/// Folders of tools that reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PluginsConfig {
    /// Folders whose folders are plugins, absolute.
    #[serde(serialize_with = "show")]
    pub folders: Vec<PathBuf>,
    /// How far they are trusted.
    pub trust: Trust,
    /// Where settings are, absolute; `None` for the data directory's.
    #[serde(serialize_with = "show")]
    pub settings: Option<PathBuf>,
    /// The interpreter of Python plugins, absolute; `None` for the system's.
    #[serde(serialize_with = "show")]
    pub python: Option<PathBuf>,
    /// What each is given, by name.
    #[serde(serialize_with = "show")]
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
