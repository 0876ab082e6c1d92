//! Permissions that the operator grants a plugin: paths, network, programs, memory.

use std::path::PathBuf;

/// The access that the operator grants a plugin. Only access that the manifest requests takes
/// effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessGrant {
    /// Absolute paths of folders that the plugin may read.
    pub readable_dirs: Vec<PathBuf>,
    /// Absolute path of the folder that the plugin may write.
    pub writable_dir: Option<PathBuf>,
    /// Allowed hosts: names, `*.example.org`, `*` for all public hosts, or origins such as
    /// `http://127.0.0.1:8080`. Only origins may be on this machine or in a private network.
    pub allowed_hosts: Vec<String>,
    /// Absolute paths of folders with additional programs that the plugin may read and run.
    pub program_dirs: Vec<PathBuf>,
    /// Maximum memory, in MiB.
    pub max_memory_mib: Option<u64>,
}
