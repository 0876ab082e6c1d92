//! The descriptor of the server that holds a data directory, published to other processes in
//! `server.json`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use rooted_fs::private_file;
use serde::{Deserialize, Serialize};

use super::{DataDir, Held};
use crate::failure::Failure;

/// The name of the descriptor file.
const FILE: &str = "server.json";

/// The descriptor of the server that holds a data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The address it listens on.
    pub address: SocketAddr,
    /// The id of its process.
    pub pid: u32,
    /// Its version; empty for servers too old to report it.
    #[serde(default)]
    pub version: String,
    /// Whether it was started by a client rather than a person.
    #[serde(default)]
    pub background: bool,
    /// The absolute path of its configuration file.
    #[serde(default)]
    pub configuration: Option<PathBuf>,
    /// Hashes of the environment variables that its configuration depends on.
    #[serde(default)]
    pub variables: BTreeMap<String, u64>,
    /// Whether it has listed its sources for the first time, or stopped waiting for them.
    #[serde(default)]
    pub listed: bool,
}

impl Server {
    /// Whether its process is running, as far as can be determined. A zombie process is not.
    pub(crate) fn is_alive(&self) -> bool {
        let program = fs::read_link(format!("/proc/{}/exe", self.pid));
        let is_gone = program.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        !is_gone || !Path::new("/proc/self").exists()
    }

    /// The URL at which this machine reaches it.
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("http://{address}")
    }

    /// Describes the configuration for people.
    pub(crate) fn configuration(&self) -> String {
        named(self.configuration.as_deref())
    }
}

/// Describes a configuration file, or its absence, for people.
pub fn named(configuration: Option<&Path>) -> String {
    let none = || "none: only the built-in tools".to_owned();
    configuration.map_or_else(none, |file| file.display().to_string())
}

impl DataDir {
    /// Reads the descriptor of the server that holds the directory; `None` if there is none yet.
    pub fn server(&self) -> Option<Server> {
        let text = fs::read(self.path().join(FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Reads the descriptor of a running server, ignoring stale files.
    pub fn running_server(&self) -> Option<Server> {
        self.server().filter(|server| server.is_alive() && self.is_held())
    }
}

impl Held {
    /// Publishes the descriptor of this server to other processes.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn tell_server(&self, server: &Server) -> Result<(), Failure> {
        let text = serde_json::to_vec(server).unwrap_or_default();
        private_file::replace(&self.data().path().join(FILE), &text)
            .map_err(|error| self.data().failed("cannot be written", &error))
    }

    /// Removes the published descriptor.
    pub fn forget_server(&self) {
        let _absent = fs::remove_file(self.data().path().join(FILE));
    }
}
