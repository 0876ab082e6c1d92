//! The configuration file as a whole: its top-level keys.

use std::collections::BTreeSet;
use std::path::PathBuf;

use option_types::PackageLimits;
use serde_json::json;
use tool::Secret;
use url::Url;

use super::ConfigPosition;
use super::config_value::{ConfigValue, ValueParser as _};
use super::section::{section, subsection};
use super::sections::{
    AccessTokensConfig, ApprovalsConfig, BuiltinsConfig, LimitsConfig, NodesConfig, PluginsConfig,
    PolicyKeys, RecordsConfig, ServerConfig, SourceConfig, SourceListParser, ToolsetConfig,
    check_issuers, name_list, toolsets,
};
use super::value_parsers::{integer, override_schema, path, text};

section! {
    /// The configuration of Toolkeep. Every value can contain `${VAR}` and `${VAR:-default}`; write `$${` for the
    /// characters `${`. Paths are relative to this file.
    pub(crate) struct ConfigFile as "" with { "required": ["version"] } {
        /// The version of this format: 1.
        _version as "version": Option<u64> = override_schema(
            || json!({ "type": "integer", "format": "uint64", "minimum": 0, "const": 1 }),
            integer(0..=u64::MAX).and_then(check_version),
        );
        /// The address to listen on: an IP address or `localhost`, and a port. Default: `127.0.0.1:8080`.
        pub(crate) listen: Option<(String, ConfigPosition)> =
            text().and_then(|value, text| Some((text, value.node.position)));
        /// The data directory. Default: `$XDG_DATA_HOME/toolkeep`, else `~/.local/share/toolkeep`.
        pub(crate) data_dir as "data": Option<PathBuf> = path();
        /// The sources of tools.
        _sources as "sources": Vec<SourceConfig> = SourceListParser;
        /// Settings of the HTTP server.
        pub(crate) server: ServerConfig = subsection::<ServerConfig>();
        /// Approvals: calls that wait for a person's decision.
        pub(crate) approvals: ApprovalsConfig = subsection::<ApprovalsConfig>();
        /// Limits on concurrent calls and results.
        pub(crate) limits: LimitsConfig = subsection::<LimitsConfig>();
        /// URL of the Redis that stores the manifests of HTTP modules, such as `redis://HOST:6379/0`. Default: the data
        /// directory stores them.
        pub(crate) redis_url as "redis": Option<Secret> = text().and_then(redis_url);
        /// The policy: which keys may make which calls. Each rule only restricts.
        pub(crate) policy: Option<PolicyKeys> = subsection::<PolicyKeys>();
        /// Toolsets by name: chosen items of several sources, each at an MCP endpoint `/mcp/NAME`. No toolset has the
        /// name of a source.
        _toolsets as "toolsets": Vec<ToolsetConfig> = toolsets();
        /// Settings of the built-in tools.
        pub(crate) builtins: BuiltinsConfig = subsection::<BuiltinsConfig>();
        /// The record of all calls.
        pub(crate) records: RecordsConfig = subsection::<RecordsConfig>();
        /// The tool packages under `/catalogue`.
        pub(crate) tool_packages: PackageLimits = subsection::<PackageLimits>();
        /// Tools on other machines.
        pub(crate) nodes: NodesConfig = subsection::<NodesConfig>();
        /// Plugins: folders of tools that are reloaded when they change.
        pub(crate) plugins: PluginsConfig = subsection::<PluginsConfig>();
        /// The issuers whose access tokens are accepted, besides API keys.
        pub(crate) access_tokens as "tokens": Option<AccessTokensConfig> =
            subsection::<AccessTokensConfig>().map(check_issuers);
        /// Names of the sources that callers without a persona may use, except the owner: a list, or a string with
        /// commas. Default: all.
        pub(crate) default_guest_modules: Option<(BTreeSet<String>, ConfigPosition)> =
            name_list().and_then(|value, names| Some((names, value.node.position)));
    }
}

fn check_version(value: ConfigValue<'_>, version: u64) -> Option<u64> {
    if version == 1 {
        return Some(version);
    }
    let message = format!("version {version} is not supported");
    value.report(message, "this release of toolkeep reads version 1");
    None
}

fn redis_url(value: ConfigValue<'_>, text: String) -> Option<Secret> {
    if is_redis_url(&text) {
        return Some(Secret::new(text));
    }
    let help = "write it as `redis://HOST:PORT`, or `rediss://` for TLS";
    value.report_redacted("invalid Redis URL", help);
    None
}

pub(crate) fn is_redis_url(text: &str) -> bool {
    let is_redis = |url: &Url| matches!(url.scheme(), "redis" | "rediss") && url.has_host();
    Url::parse(text).is_ok_and(|url| is_redis(&url))
}
