//! The background server: one for each data directory, started by the first `toolkeep mcp` and shared by all.
//!
//! Three files of the data directory settle who does what; the kernel releases their locks however a process ends.
//! `server.lock` is held by the server, `clients.lock` by each client together with the others, and `start.lock` by
//! the one process that starts a server.

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

/// Between two looks at the data directory.
const LOOK: Duration = Duration::from_millis(20);
/// The longest that a server may take to start, or to end.
const WAIT: Duration = Duration::from_secs(40);

/// What a client wants of the server that it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The configuration file, absolute.
    pub configuration: Option<PathBuf>,
    /// Hashes of the environment variables that the configuration depends on.
    pub variables: BTreeMap<String, u64>,
}

impl Wanted {
    /// As this process would run a server.
    pub fn of(configuration: Option<PathBuf>, reading: &Reading, all: &Environment) -> Self {
        let hash = |name: String| {
            let mut hasher = DefaultHasher::new();
            all.get(&name).hash(&mut hasher);
            (name, hasher.finish())
        };
        // Those of Toolkeep set flags, and the server has flags of its own.
        let others = reading.variables().into_iter().filter(|name| !name.starts_with("TOOLKEEP_"));
        let variables = others.map(hash).collect();
        Self { configuration, variables }
    }
}
