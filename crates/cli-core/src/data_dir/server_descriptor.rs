//! The descriptor of the server that holds a data directory, published to other processes in
//! `server.json`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use rooted_fs::private_file;
use serde::{Deserialize, Serialize};

use super::{DataDir, DataDirLock};
use crate::command_error::CommandError;

/// The name of the descriptor file.
const SERVER_FILE: &str = "server.json";

/// The descriptor of the server that holds a data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerDescriptor {
    /// The address it listens on.
    pub address: SocketAddr,
    /// The id of its process.
    pub pid: u32,
    /// Its version; empty for servers too old to report it.
    #[serde(default)]
    pub version: String,
    /// Whether it was started by a client rather than a person.
    #[serde(default)]
    #[serde(rename = "background")]
    pub is_background: bool,
    /// The absolute path of its configuration file.
    #[serde(default)]
    pub configuration: Option<PathBuf>,
    /// Hashes of the environment variables that its configuration depends on.
    #[serde(default)]
    #[serde(rename = "variables")]
    pub variable_hashes: BTreeMap<String, u64>,
    /// Whether it has listed its sources for the first time, or stopped waiting for them.
    #[serde(default)]
    #[serde(rename = "listed")]
    pub has_listed_sources: bool,
}

impl ServerDescriptor {
    /// Whether its process is running, as far as can be determined. A zombie process is not.
    pub(crate) fn is_alive(&self) -> bool {
        let program = fs::read_link(format!("/proc/{}/exe", self.pid));
        let is_gone = program.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        !is_gone || !Path::new("/proc/self").exists()
    }

    /// The URL at which this machine reaches it.
    pub fn local_url(&self) -> String {
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
    pub(crate) fn describe_configuration(&self) -> String {
        describe_configuration(self.configuration.as_deref())
    }
}

/// Describes a configuration file, or its absence, for people.
pub fn describe_configuration(configuration: Option<&Path>) -> String {
    let none = || "none (built-in tools only)".to_owned();
    configuration.map_or_else(none, |file| file.display().to_string())
}

impl DataDir {
    /// Reads the descriptor of the server that holds the directory; `None` if there is none yet.
    pub fn read_server(&self) -> Option<ServerDescriptor> {
        let text = fs::read(self.path().join(SERVER_FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Reads the descriptor of a running server, ignoring stale files.
    pub fn find_running_server(&self) -> Option<ServerDescriptor> {
        self.read_server().filter(|server| server.is_alive() && self.is_locked())
    }
}

impl DataDirLock {
    /// Publishes the descriptor of this server to other processes.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn publish_server(&self, server: &ServerDescriptor) -> Result<(), CommandError> {
        let text = serde_json::to_vec(server).unwrap_or_default();
        private_file::replace_atomically(&self.dir().path().join(SERVER_FILE), &text)
            .map_err(|error| self.dir().io_error("cannot be written", &error))
    }

    /// Removes the published descriptor.
    pub fn unpublish_server(&self) {
        let _absent = fs::remove_file(self.dir().path().join(SERVER_FILE));
    }
}
