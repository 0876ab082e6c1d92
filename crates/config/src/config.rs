//! The effective configuration: file, flags and environment combined, with every variable expanded and every default
//! set.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use tool::Secret;

use super::config_file::ConfigFile;
use super::file_context::FileContext;
use super::sections::{
    AccessTokensConfig, ApprovalsConfig, BuiltinsConfig, LimitsConfig, NodesConfig, PluginsConfig,
    ServerConfig, SourceConfig, ToolsetConfig, invalid_host_error, parse_host,
};
use super::yaml_tree::shorten_text;
use super::{ConfigError, ConfigErrors, ConfigPosition, LoadOptions};

/// The address that the server listens on by default.
const DEFAULT_LISTEN_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// The whole effective configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file; `None` without one.
    pub file: Option<PathBuf>,
    /// The address to listen on.
    pub listen_address: SocketAddr,
    /// The data directory, absolute.
    pub data_dir: PathBuf,
    /// The sources of tools, in the order of the file. Their names are unique.
    pub sources: Vec<SourceConfig>,
    /// Values of the files that are ignored and stop nothing.
    pub notes: ConfigErrors,
    /// Settings of the HTTP server.
    pub server: ServerConfig,
    /// Limits of pending approvals, and their webhook.
    pub approvals: ApprovalsConfig,
    /// Limits on concurrent calls and results.
    pub limits: LimitsConfig,
    /// Settings of the built-in tools.
    pub builtins: BuiltinsConfig,
    /// A second file for signed checkpoints, absolute.
    pub checkpoint_mirror: Option<PathBuf>,
    /// The retention of the record.
    pub retention: ledger::RetentionPolicy,
    /// The size at which a file of the record is closed, in bytes.
    pub segment_bytes: u64,
    /// Limits of the tool packages.
    pub tool_packages: option_types::PackageLimits,
    /// The policy: which keys may make which calls.
    pub policy: policy::Policy,
    /// Whether the file has a policy section, which may be empty.
    pub has_policy_section: bool,
    /// The toolsets. None has the name of a source.
    pub toolsets: Vec<ToolsetConfig>,
    /// The Redis that stores the manifests of HTTP modules. The URL may contain a password.
    pub redis_url: Option<Secret>,
    /// Tools on other machines.
    pub nodes: NodesConfig,
    /// Folders and grants of the plugins.
    pub plugins: PluginsConfig,
    /// The issuers whose access tokens are accepted.
    pub access_tokens: Option<AccessTokensConfig>,
    /// The sources that callers without a persona may use; `None` for all.
    pub default_guest_modules: Option<BTreeSet<String>>,
    /// The position of `default_guest_modules` in the file; `None` where the file does not set it.
    pub guest_modules_position: Option<ConfigPosition>,
}

impl Config {
    /// The policy document, unless it is empty.
    pub fn policy_document(&self) -> Option<&policy::PolicyDocument> {
        let document = self.policy.document();
        Some(document).filter(|document| **document != policy::PolicyDocument::default())
    }
}

impl FileContext<'_> {
    /// Resolves every section but the sources and the toolsets. The result is only usable if no error is reported.
    pub(crate) fn resolve_config(&self, mut file: ConfigFile, options: &LoadOptions) -> Config {
        file.server.allowed_hosts.extend(self.parse_host_flags(&options.allowed_hosts));
        Config {
            file: options.file.clone(),
            listen_address: self.resolve_listen_address(&file, options),
            data_dir: self.resolve_data_dir(&file, options),
            sources: Vec::new(),
            notes: ConfigErrors::default(),
            builtins: file.builtins,
            has_policy_section: file.policy.is_some(),
            policy: self.compile_policy(file.policy.unwrap_or_default()),
            toolsets: Vec::new(),
            nodes: file.nodes,
            plugins: file.plugins,
            access_tokens: file.access_tokens,
            guest_modules_position: file
                .default_guest_modules
                .as_ref()
                .map(|(_, position)| *position),
            default_guest_modules: self.resolve_guest_modules(file.default_guest_modules),
            redis_url: file.redis_url.or_else(|| self.module_redis_url()),
            server: file.server,
            approvals: file.approvals,
            limits: file.limits,
            checkpoint_mirror: file.records.checkpoints.mirror,
            retention: file.records.retention,
            segment_bytes: file.records.segment_bytes,
            tool_packages: file.tool_packages,
        }
    }

    fn parse_host_flags(&self, flags: &[String]) -> Vec<String> {
        let parse = |text: &String| {
            let host = parse_host(text);
            if host.is_none() {
                let (message, help) = invalid_host_error(text);
                let error = ConfigError::for_flag("--allowed-host", message);
                self.errors.push_error(error.with_help(help));
            }
            host
        };
        flags.iter().filter(|text| !text.is_empty()).filter_map(parse).collect()
    }

    fn resolve_listen_address(&self, file: &ConfigFile, options: &LoadOptions) -> SocketAddr {
        let (text, position) = match (&options.listen, &file.listen) {
            (Some(text), _) => (text, None),
            (None, Some((text, position))) => (text, Some(*position)),
            (None, None) => return DEFAULT_LISTEN_ADDRESS,
        };
        let reject = |message: String, help: &str| {
            if let Some(position) = position {
                self.errors.report(position, message, help);
            } else {
                let error = ConfigError::for_flag("--listen", message);
                self.errors.push_error(error.with_help(help));
            }
            DEFAULT_LISTEN_ADDRESS
        };
        let Some(address) = parse_listen_address(text) else {
            let message = format!("invalid listen address `{}`", shorten_text(text));
            return reject(message, "write an IP address and a port, such as `127.0.0.1:8080`");
        };
        if !address.ip().is_loopback() && !options.behind_tls && !file.server.behind_tls {
            let message = format!("`{address}` is open to the network, and this is plain HTTP");
            let help = "listen on 127.0.0.1; or put a TLS proxy in front, or keep the network private, and set \
                        `serve --behind-tls`, TOOLKEEP_BEHIND_TLS=true, or `server: { behind_tls: true }` in the \
                        configuration";
            return reject(message, help);
        }
        address
    }

    fn resolve_data_dir(&self, file: &ConfigFile, options: &LoadOptions) -> PathBuf {
        if let Some(dir) = &options.data_dir {
            return options.current_dir.join(dir);
        }
        if let Some(dir) = &file.data_dir {
            return dir.clone();
        }
        self.environment.data_home().unwrap_or_else(|| {
            let message = "HOME is not set, so there is no default data directory";
            let error = ConfigError::for_flag("--data", message);
            self.errors.push_error(error.with_help("name one: `--data DIR`"));
            options.current_dir.join("toolkeep-data")
        })
    }
}

/// Parses an address to listen on: an IP address or `localhost`, and a port.
fn parse_listen_address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port.parse().ok()?)),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
