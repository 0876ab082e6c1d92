//! The configuration as it is used: of the file, the flags and the environment together. No variable and no default is
//! left open.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use tool::Secret;

use super::context::FileContext;
use super::file::File;
use super::node::shorten;
use super::sections::{
    ApprovalsConfig, BuiltinsConfig, LimitsConfig, NodesConfig, PluginsConfig, ServerConfig,
    SourceConfig, TokensConfig, host, host_fault,
};
use super::{Fault, Faults, Place, Setting};

/// The port, where nothing is said.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// All of it.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file it came from; `None` where there was none.
    pub file: Option<PathBuf>,
    /// Where to listen.
    pub listen: SocketAddr,
    /// The data directory, absolute.
    pub data: PathBuf,
    /// Where tools come from, in the order of the file. No two have one name.
    pub sources: Vec<SourceConfig>,
    /// What the files say that is not used, and takes nothing down.
    pub notes: Faults,
    /// The front doors.
    pub server: ServerConfig,
    /// Calls that are held.
    pub approvals: ApprovalsConfig,
    /// Limits on calls.
    pub limits: LimitsConfig,
    /// The built-in tools.
    pub builtins: BuiltinsConfig,
    /// A second place for signed checkpoints, absolute.
    pub checkpoints_also: Option<PathBuf>,
    /// How much of the record is kept.
    pub keep: ledger::Keep,
    /// Bytes at which a file of the record is closed.
    pub record_file: u64,
    /// Limits of the catalogue of tool packages.
    pub tool_packages: option_types::PackageLimits,
    /// Who may call what.
    pub policy: policy::Policy,
    /// Whether the file has a policy at all, be it an empty one.
    pub policy_said: bool,
    /// Where manifests of HTTP modules are kept. The URL may hold a password.
    pub redis: Option<Secret>,
    /// Tools on other machines.
    pub nodes: NodesConfig,
    /// Folders of tools that reload.
    pub plugins: PluginsConfig,
    /// Whose tokens are believed.
    pub tokens: Option<TokensConfig>,
    /// Sources whose tools those may use who have no persona; `None` is no limit.
    pub default_guest_modules: Option<BTreeSet<String>>,
    /// Where the file names them; `None` where it does not.
    pub guest_modules_at: Option<Place>,
}

impl Config {
    /// The rules, where the operator has any.
    pub fn rules(&self) -> Option<&policy::Rules> {
        Some(self.policy.rules()).filter(|rules| **rules != policy::Rules::default())
    }
}

impl FileContext<'_> {
    /// Everything but the sources. Whether the result may be used is for the faults to say.
    pub(crate) fn config(&self, mut file: File, setting: &Setting) -> Config {
        file.server.allowed_hosts.extend(self.hosts_of_flags(&setting.allowed_hosts));
        Config {
            file: setting.file.clone(),
            listen: self.listen(&file, setting),
            data: self.data(&file, setting),
            sources: Vec::new(),
            notes: Faults::default(),
            builtins: file.builtins,
            policy_said: file.policy.is_some(),
            policy: self.policy(file.policy.unwrap_or_default()),
            nodes: file.nodes,
            plugins: file.plugins,
            tokens: file.tokens,
            guest_modules_at: file.default_guest_modules.as_ref().map(|(_, place)| *place),
            default_guest_modules: self.guest_modules(file.default_guest_modules),
            redis: file.redis.or_else(|| self.redis_of_services()),
            server: file.server,
            approvals: file.approvals,
            limits: file.limits,
            checkpoints_also: file.records.checkpoints.also,
            keep: file.records.keep,
            record_file: file.records.file,
            tool_packages: file.tool_packages,
        }
    }

    fn hosts_of_flags(&self, flags: &[String]) -> Vec<String> {
        let checked = |text: &String| {
            let host = host(text);
            if host.is_none() {
                let (message, fix) = host_fault(text);
                self.sink.add(Fault::flag("--allowed-host", message).fix(fix));
            }
            host
        };
        flags.iter().filter(|it| !it.is_empty()).filter_map(checked).collect()
    }

    fn listen(&self, file: &File, setting: &Setting) -> SocketAddr {
        let (text, place) = match (&setting.listen, &file.listen) {
            (Some(text), _) => (text, None),
            (None, Some((text, place))) => (text, Some(*place)),
            (None, None) => return LISTEN,
        };
        let wrong = |message: String, fix: &str| {
            match place {
                Some(place) => self.sink.tell(place, message, fix),
                None => self.sink.add(Fault::flag("--listen", message).fix(fix)),
            }
            LISTEN
        };
        let Some(address) = address(text) else {
            let message = format!("`{}` is no address to listen on", shorten(text));
            return wrong(message, "write an IP address and a port, such as `127.0.0.1:8080`");
        };
        if !address.ip().is_loopback() && !setting.behind_tls && !file.server.behind_tls {
            let message = format!("`{address}` is open to the network, and this is plain HTTP");
            let fix = "listen on 127.0.0.1; or put a TLS proxy in front, or keep the network private, and say so: \
                       `serve --behind-tls`, TOOLKEEP_BEHIND_TLS=true, or `server: { behind_tls: true }` in the \
                       configuration";
            return wrong(message, fix);
        }
        address
    }

    fn data(&self, file: &File, setting: &Setting) -> PathBuf {
        if let Some(data) = &setting.data {
            return setting.folder.join(data);
        }
        if let Some(data) = &file.data {
            return data.clone();
        }
        self.environment.data_home().unwrap_or_else(|| {
            let message = "there is no home folder to keep data in";
            self.sink.add(Fault::flag("--data", message).fix("say where: `--data DIR`"));
            setting.folder.join("toolkeep-data")
        })
    }
}

/// An address to listen on: an IP address or `localhost`, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port.parse().ok()?)),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
