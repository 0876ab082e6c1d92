//! The file as it is written: nothing resolved, nothing checked beyond its shape. The published JSON
//! Schema is made from these types, and their comments are its descriptions.

mod approvals;
mod authorization;
mod builtins;
mod nodes;
mod plugins;
mod policy;
mod records;
mod servers;
mod text;
mod tokens;
mod tool_file;
mod tool_packages;
mod which;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use super::field::Field;
pub(crate) use policy::{EffectWord, Example, Layer, Policy, Rule, SafetyWord, ScopeRule, Time};

pub(crate) use self::nodes::{Kubernetes, Nodes, SchemeWord};
pub(crate) use self::plugins::{Grant as PluginGrant, Plugins};
pub(crate) use approvals::{Approvals, Webhook};
pub(crate) use authorization::{GrantWord, OAuth, PerCaller};
pub(crate) use builtins::{Builtins, Folder, Narrowing, Search};
pub(crate) use records::Records;
pub(crate) use servers::ServerSettings;
pub(crate) use text::Text;
pub(crate) use tokens::{Grant, Issuer, Tokens};
pub(crate) use tool_file::ToolFilePath;
pub(crate) use tool_packages::ToolPackages;
pub(crate) use which::Which;

/// Configuration of Toolkeep. `${VAR}` and `${VAR:-default}` may stand in every value; `$${` stands
/// for the characters `${`. Paths are relative to the file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Toolkeep configuration", extend("required" = ["version"]))]
pub(crate) struct File {
    /// Version of this format: 1.
    #[schemars(with = "u64", extend("const" = 1))]
    pub(crate) version: Field<u64>,
    /// Address to listen on, such as `127.0.0.1:8080`.
    pub(crate) listen: Field<String>,
    /// The data directory. Default: `$XDG_DATA_HOME/toolkeep`, else `~/.local/share/toolkeep`.
    pub(crate) data: Field<String>,
    /// Where tools come from.
    pub(crate) sources: Field<Vec<Field<Source>>>,
    /// The front doors.
    pub(crate) server: Field<Server>,
    /// Calls that are held until a person has agreed.
    pub(crate) approvals: Field<Approvals>,
    /// Limits on calls.
    pub(crate) limits: Field<Limits>,
    /// URL of a Redis in which the manifests of HTTP modules are kept, such as `redis://HOST:6379/0`.
    /// Without it they are kept in the data directory.
    pub(crate) redis: Field<String>,
    /// Who may call what. Each rule only takes away.
    pub(crate) policy: Field<Policy>,
    /// The built-in tools.
    pub(crate) builtins: Field<Builtins>,
    /// The record of all calls.
    pub(crate) records: Field<Records>,
    /// The tool packages under `/catalogue`.
    pub(crate) tool_packages: Field<ToolPackages>,
    /// Tools on other machines.
    pub(crate) nodes: Field<Nodes>,
    /// Plugins: folders of tools that are read again when they change.
    pub(crate) plugins: Field<Plugins>,
    /// Whose tokens are believed, beside the keys of this program.
    pub(crate) tokens: Field<Tokens>,
    /// Names of the sources whose tools those may use who have no persona, the owner apart: a list, or
    /// a text with commas. Default: all.
    pub(crate) default_guest_modules: Field<Names>,
}

/// One source of tools: exactly one of `tools`, `module`, `mcp` and `mcp_servers`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["name", "tools"] }, { "required": ["name", "module"] },
    { "required": ["name", "mcp"] }, { "required": ["mcp_servers"] },
]))]
pub(crate) struct Source {
    /// Its name: 1 to 128 letters, digits, `_`, `.` and `-`. For `mcp_servers` it is put before the
    /// names in that file, and may be left out.
    pub(crate) name: Field<String>,
    /// A tool file.
    pub(crate) tools: Field<ToolFilePath>,
    /// URL of an HTTP module.
    pub(crate) module: Field<String>,
    /// An MCP server: a command or a URL.
    pub(crate) mcp: Field<Mcp>,
    /// A JSON file with `mcpServers`, as other programs have it.
    pub(crate) mcp_servers: Field<String>,
    /// Whether its tools take long: a call then has 120 seconds instead of 30.
    pub(crate) slow: Field<bool>,
    /// How far it is trusted not to change its tools. Default: `first_use` for MCP servers, `full`
    /// for tool files and modules.
    pub(crate) trust: Field<TrustWord>,
    /// Whether an MCP server is trusted in what the annotations of its tools say, such as `readOnlyHint`.
    /// Default: `false`, and then an annotation can only make a tool stricter.
    pub(crate) trust_annotations: Field<bool>,
    /// Tools of an MCP server that destroy what cannot be had back, by your word: `true` for all, their names,
    /// `false` for none. Without it the annotation `destructiveHint` counts. Their calls need an approval.
    pub(crate) destructive: Field<Which>,
    /// Tools of an MCP server that are not offered, by the server's own names.
    pub(crate) disabled_tools: Field<Names>,
    /// Settings of single servers of `mcp_servers`, by their names in that file.
    pub(crate) servers: Field<BTreeMap<String, Field<ServerSettings>>>,
    /// What is sent to it with each request.
    pub(crate) credential: Field<Credential>,
    /// How sure the record must be. Default: a call with effects is on the disk before it runs, any
    /// other is handed to the kernel.
    pub(crate) durability: Field<DurabilityWord>,
    /// Tools that change nothing, by your word: `true` for all, or their names.
    pub(crate) read_only: Field<Which>,
    /// Tools that may run twice with the effect of once, by your word: `true` for all, or their
    /// names.
    pub(crate) idempotent: Field<Which>,
    /// Tools that programs may call too, not only models and people: `true` for all, or their names.
    pub(crate) chain: Field<Which>,
    /// Time for one call, such as `30s`, `500ms` or `2m`.
    pub(crate) timeout: Field<String>,
    /// Of an MCP server: time for one start, from the program's start or the first request to the answer to
    /// `initialize`, from `1ms` to `1h`. Default: `5m` for a `command`, which may have to download a package first;
    /// `20s` for a `url`. No other source and no client waits for it.
    pub(crate) startup_timeout: Field<String>,
    /// Of an MCP server: the largest message that it may send, such as `64MiB`. Default: `16MiB`.
    pub(crate) max_message: Field<Size>,
    /// `once`: a call that failed is made once more, of tools that change nothing or may run twice.
    pub(crate) retry: Field<RetryWord>,
}

/// An MCP server: either `command`, which is started, or `url`, which is dialled.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["command"] }, { "required": ["url"] }]))]
pub(crate) struct Mcp {
    /// The program.
    pub(crate) command: Field<String>,
    /// Its arguments.
    pub(crate) args: Field<Vec<Field<Text>>>,
    /// Variables it gets beside a few harmless ones.
    pub(crate) env: Field<BTreeMap<String, Field<Text>>>,
    /// Where it runs. Default: the folder of this file.
    pub(crate) cwd: Field<String>,
    /// Its address.
    pub(crate) url: Field<String>,
    /// Headers sent with each request.
    pub(crate) headers: Field<BTreeMap<String, Field<Text>>>,
    /// How tokens for it are asked for. Where nothing is said and it wants some, a person logs in:
    /// `toolkeep source login NAME`.
    pub(crate) oauth: Field<OAuth>,
    /// A secret of its own for each caller. A caller without one gets an error.
    pub(crate) per_caller: Field<PerCaller>,
}

/// A credential: exactly one of these.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct Credential {
    /// Sent as `Authorization: Bearer`; better a variable than the secret itself.
    pub(crate) bearer: Field<String>,
    /// Name of the environment variable that holds the bearer token.
    pub(crate) bearer_env: Field<String>,
}

/// The front doors.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Server {
    /// Host names, without port, under which the server may be addressed, beside those of the loopback. `serve
    /// --allowed-host` and TOOLKEEP_ALLOWED_HOSTS add to them.
    pub(crate) allowed_hosts: Field<Vec<Field<String>>>,
    /// Origins of web pages that may speak to it, such as `https://console.example`.
    pub(crate) allowed_origins: Field<Vec<Field<String>>>,
    /// The largest request body, such as `2MiB`.
    pub(crate) max_body: Field<Size>,
    /// Whether a TLS proxy, or a private network of containers, is in front of the server. Needed to listen beyond loopback. `serve
    /// --behind-tls` and TOOLKEEP_BEHIND_TLS say the same.
    pub(crate) behind_tls: Field<bool>,
    /// How much of a cage the tools that run code must have, `whole` where nothing is said.
    pub(crate) cage: Field<CageWord>,
    /// How long a background server, which `toolkeep mcp` started, stays without a client: from `1ms` to `24h`.
    /// Default: `1m`.
    pub(crate) idle_timeout: Field<String>,
    /// What reads and writes HTTP/1.1 on both sides. Takes effect at the next start. Default: `fast`.
    pub(crate) http: Field<HttpWord>,
}

/// What reads and writes HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HttpWord {
    /// Toolkeep's own code, for requests and responses with one interpretation, and hyper for all others.
    Fast,
    /// hyper alone.
    Standard,
}

/// How much of a cage the tools that run code must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CageWord {
    /// Namespaces, landlock and seccomp.
    Whole,
    /// Landlock and seccomp will do, where the kernel gives no namespaces.
    Fenced,
}

/// Limits on calls.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// Calls at once, of all keys.
    pub(crate) calls: Field<u64>,
    /// Calls at once, of one key and all keys that were delegated from it.
    pub(crate) calls_per_key: Field<u64>,
    /// Calls at once, on one source.
    pub(crate) calls_per_source: Field<u64>,
    /// Calls at once, of one key on one source; a quarter of `calls_per_source` where absent.
    pub(crate) calls_per_key_and_source: Field<u64>,
    /// The largest result, such as `1MiB`.
    pub(crate) result_bytes: Field<Size>,
}

/// How far a source is trusted not to change its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TrustWord {
    /// Changes are taken, pinned anew and recorded.
    Full,
    /// Tools are taken at first sight; a changed tool is held back.
    FirstUse,
    /// No tool is active until someone has looked at it.
    Review,
}

/// How often a failed call is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RetryWord {
    /// Not at all.
    Never,
    /// Once.
    Once,
}

/// How sure the record must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DurabilityWord {
    /// Handed to the kernel before the call runs: survives the end of the program.
    Written,
    /// On the disk before the call runs: survives loss of power.
    Synced,
    /// The outcome too is on the disk before it is answered.
    Full,
}

/// A number of bytes: a number, or a text such as `2MiB`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Size(pub(crate) String);

impl JsonSchema for Size {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["string", "integer"] })
    }
}

/// Names: a list, or a text that holds one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) Vec<String>);

/// A list in a text, as spec 0's settings have it: a JSON array of texts, or names with commas.
pub(crate) fn list(text: &str) -> Result<Vec<String>, String> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(|error| format!("this is no list: {error}"));
    }
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NamesVisitor)
    }
}

struct NamesVisitor;

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names, or a text such as `a,b`")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Names, E> {
        list(text).map(Names).map_err(E::custom)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element()? {
            names.push(name);
        }
        Ok(Names(names))
    }
}

impl JsonSchema for Names {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Names".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
        })
    }
}
