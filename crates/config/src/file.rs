//! The file as a whole.

use std::collections::BTreeSet;
use std::path::PathBuf;

use option_types::PackageLimits;
use serde_json::json;
use tool::Secret;
use url::Url;

use super::Place;
use super::parsers::{number, path, text, with_schema};
use super::section::{section, subsection};
use super::sections::{
    ApprovalsConfig, BuiltinsConfig, LimitsConfig, NodesConfig, PluginsConfig, PolicyKeys, Records,
    ServerConfig, SourceConfig, SourceList, TokensConfig, names, tokens,
};
use super::value::{ConfigValue, ValueParser as _};

section! {
    /// Configuration of Toolkeep. `${VAR}` and `${VAR:-default}` may stand in every value; `$${` stands
    /// for the characters `${`. Paths are relative to the file.
    pub(crate) struct File as "" with { "required": ["version"] } {
        /// Version of this format: 1.
        _version as "version": Option<u64> = with_schema(
            || json!({ "type": "integer", "format": "uint64", "minimum": 0, "const": 1 }),
            number(0..=u64::MAX).then(version),
        );
        /// Address to listen on, such as `127.0.0.1:8080`.
        pub(crate) listen: Option<(String, Place)> = text().then(|value, text| Some((text, value.node.place)));
        /// The data directory. Default: `$XDG_DATA_HOME/toolkeep`, else `~/.local/share/toolkeep`.
        pub(crate) data: Option<PathBuf> = path();
        /// Where tools come from.
        _sources as "sources": Vec<SourceConfig> = SourceList;
        /// The front doors.
        pub(crate) server: ServerConfig = subsection::<ServerConfig>();
        /// Calls that are held until a person has agreed.
        pub(crate) approvals: ApprovalsConfig = subsection::<ApprovalsConfig>();
        /// Limits on calls.
        pub(crate) limits: LimitsConfig = subsection::<LimitsConfig>();
        /// URL of a Redis in which the manifests of HTTP modules are kept, such as `redis://HOST:6379/0`.
        /// Without it they are kept in the data directory.
        pub(crate) redis: Option<Secret> = text().then(redis);
        /// Who may call what. Each rule only takes away.
        pub(crate) policy: Option<PolicyKeys> = subsection::<PolicyKeys>();
        /// The built-in tools.
        pub(crate) builtins: BuiltinsConfig = subsection::<BuiltinsConfig>();
        /// The record of all calls.
        pub(crate) records: Records = subsection::<Records>();
        /// The tool packages under `/catalogue`.
        pub(crate) tool_packages: PackageLimits = subsection::<PackageLimits>();
        /// Tools on other machines.
        pub(crate) nodes: NodesConfig = subsection::<NodesConfig>();
        /// Plugins: folders of tools that are read again when they change.
        pub(crate) plugins: PluginsConfig = subsection::<PluginsConfig>();
        /// Whose tokens are believed, beside the keys of this program.
        pub(crate) tokens: Option<TokensConfig> = subsection::<TokensConfig>().map(tokens);
        /// Names of the sources whose tools those may use who have no persona, the owner apart: a list, or
        /// a text with commas. Default: all.
        pub(crate) default_guest_modules: Option<(BTreeSet<String>, Place)> =
            names().then(|value, names| Some((names, value.node.place)));
    }
}

fn version(value: ConfigValue<'_>, version: u64) -> Option<u64> {
    if version == 1 {
        return Some(version);
    }
    let fix = "this version of toolkeep reads version 1";
    value.fault(format!("version {version} is not known"), fix);
    None
}

fn redis(value: ConfigValue<'_>, text: String) -> Option<Secret> {
    if is_redis(&text) {
        return Some(Secret::new(text));
    }
    let fix = "write it as `redis://HOST:PORT`, or `rediss://` for TLS";
    value.fault_hidden("this is no URL of a Redis", fix);
    None
}

pub(crate) fn is_redis(text: &str) -> bool {
    let fits = |url: &Url| matches!(url.scheme(), "redis" | "rediss") && url.has_host();
    Url::parse(text).is_ok_and(|url| fits(&url))
}
