//! Permissions that the operator grants a plugin: paths, network, programs, memory.

use std::path::PathBuf;

/// What the operator gives one plugin. Nothing of it is given where the manifest does not ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Folders to read, absolute.
    pub read: Vec<PathBuf>,
    /// The one folder to write, absolute.
    pub write: Option<PathBuf>,
    /// Hosts that may be asked: names, `*.example.org`, `*` for all public ones, or origins such as
    /// `http://127.0.0.1:8080`, which alone may be on this machine or in a private network.
    pub network: Vec<String>,
    /// Folders with programs beside the system's, absolute: they are read, and may be run.
    pub programs: Vec<PathBuf>,
    /// Most MiB of memory.
    pub memory: Option<u64>,
}
