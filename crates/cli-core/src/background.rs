//! The background server: one per data directory, started by the first `toolkeep mcp` and shared by
//! all clients.
//!
//! Three lock files of the data directory coordinate the processes; the kernel releases their locks
//! when a process ends. `server.lock` is locked by the server, `clients.lock` is shared by its
//! clients, and `start.lock` is locked by the process that starts a server.

mod clients;
mod door;
mod hold;
mod listed;
mod lock;
mod start;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::time::Duration;

pub use clients::{Client, Unused, until_unused};
pub(crate) use door::BackgroundDoor;
pub use hold::hold;
pub(crate) use listed::until_listed;
pub use start::{Background, Starting, end, occupied, take_over, wait_for_directory};

use config::{Environment, Reading};

/// Interval between two checks of the data directory.
const LOOK: Duration = Duration::from_millis(20);
/// Timeout for the start or the end of a server.
const WAIT: Duration = Duration::from_secs(40);

/// The configuration and environment that a client requires of the server it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The configuration file, absolute.
    pub configuration: Option<PathBuf>,
    /// Hashes of the environment variables that the configuration depends on.
    pub variables: BTreeMap<String, u64>,
}

impl Wanted {
    /// Creates the requirements from this process's configuration and environment.
    pub fn of(configuration: Option<PathBuf>, reading: &Reading, all: &Environment) -> Self {
        let hash = |name: String| {
            let mut hasher = DefaultHasher::new();
            all.get(&name).hash(&mut hasher);
            (name, hasher.finish())
        };
        // Variables of Toolkeep set flags, and the server has its own flags.
        let others = reading.variables().into_iter().filter(|name| !name.starts_with("TOOLKEEP_"));
        let variables = others.map(hash).collect();
        Self { configuration, variables }
    }
}
