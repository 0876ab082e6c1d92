//! The background server: one per data directory, started by the first `toolkeep mcp` and shared by
//! all clients.
//!
//! Three lock files of the data directory coordinate the processes; the kernel releases their locks
//! when a process ends. `server.lock` is locked by the server, `clients.lock` is shared by its
//! clients, and `start.lock` is locked by the process that starts a server.

mod background_transport;
mod client_lock;
mod data_dir_lock;
mod lock_file;
mod server_start;
mod source_listing;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use background_transport::BackgroundTransport;
pub use client_lock::{ClientLock, IdleLock, wait_until_idle};
pub use data_dir_lock::acquire_data_dir;
pub use server_start::{
    BackgroundServer, StartLock, occupied_error, stop_server, take_over_data_dir, wait_for_data_dir,
};
pub(crate) use source_listing::wait_until_listed;

use config::{Environment, LoadReport};

/// Interval between two checks of the data directory.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Timeout for the start or the end of a server.
const START_TIMEOUT: Duration = Duration::from_secs(40);

/// The configuration and environment that a client requires of the server it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRequirements {
    /// The configuration file, absolute.
    pub configuration: Option<PathBuf>,
    /// Hashes of the environment variables that the configuration depends on.
    pub variable_hashes: BTreeMap<String, u64>,
}

impl ServerRequirements {
    /// Creates the requirements from this process's configuration and environment.
    pub fn from_config(
        configuration: Option<PathBuf>,
        report: &LoadReport,
        environment: &Environment,
    ) -> Self {
        let hash = |name: String| {
            let mut hasher = DefaultHasher::new();
            environment.get(&name).hash(&mut hasher);
            (name, hasher.finish())
        };
        // Variables of Toolkeep set flags, and the server has its own flags.
        let others =
            report.variable_names().into_iter().filter(|name| !name.starts_with("TOOLKEEP_"));
        let variables = others.map(hash).collect();
        Self { configuration, variable_hashes: variables }
    }
}
