//! What the server that holds a data directory tells other processes: `server.json`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use rooted_fs::private_file;
use serde::{Deserialize, Serialize};

use super::{DataDir, Held};
use crate::failure::Failure;

/// The file.
const FILE: &str = "server.json";

/// The server that holds a data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
    /// Its version; empty where it is too old to say.
    #[serde(default)]
    pub version: String,
    /// Whether a client started it, and not a person.
    #[serde(default)]
    pub background: bool,
    /// Its configuration file, absolute.
    #[serde(default)]
    pub configuration: Option<PathBuf>,
    /// Hashes of the environment variables that its configuration depends on.
    #[serde(default)]
    pub variables: BTreeMap<String, u64>,
    /// Whether it has listed its sources for the first time, or waited for them long enough.
    #[serde(default)]
    pub listed: bool,
}

impl Server {
    /// Whether its process runs, as far as this machine tells. One that ended and that its parent has not asked for
    /// yet does not.
    pub(crate) fn is_alive(&self) -> bool {
        let program = fs::read_link(format!("/proc/{}/exe", self.pid));
        let is_gone = program.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        !is_gone || !Path::new("/proc/self").exists()
    }

    /// How to reach it from this machine.
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

    /// The configuration in words.
    pub(crate) fn configuration(&self) -> String {
        named(self.configuration.as_deref())
    }
}

/// A configuration file in words.
pub fn named(configuration: Option<&Path>) -> String {
    let none = || "none: only the built-in tools".to_owned();
    configuration.map_or_else(none, |file| file.display().to_string())
}

impl DataDir {
    /// Where the server that holds it listens; `None` where there is none, or not yet.
    pub fn server(&self) -> Option<Server> {
        let text = fs::read(self.path().join(FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The same of a server that runs: neither one that ended without a word, nor a file that is left of one.
    pub fn running_server(&self) -> Option<Server> {
        self.server().filter(|server| server.is_alive() && self.is_held())
    }
}

impl Held {
    /// Tells other processes of this server.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn tell_server(&self, server: &Server) -> Result<(), Failure> {
        let text = serde_json::to_vec(server).unwrap_or_default();
        private_file::replace(&self.data().path().join(FILE), &text)
            .map_err(|error| self.data().failed("cannot be written", &error))
    }

    /// Takes that back.
    pub fn forget_server(&self) {
        let _absent = fs::remove_file(self.data().path().join(FILE));
    }
}
