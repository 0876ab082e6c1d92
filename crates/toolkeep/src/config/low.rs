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
pub(super) use policy::{EffectWord, Example, Layer, Policy, Rule, SafetyWord, ScopeRule, Time};

pub(super) use self::nodes::{Kubernetes, Nodes, SchemeWord};
pub(super) use self::plugins::{Grant as PluginGrant, Plugins};
pub(super) use approvals::{Approvals, Webhook};
pub(super) use authorization::{GrantWord, OAuth, PerCaller};
pub(super) use builtins::{Builtins, Folder, Narrowing, Search};
pub(super) use records::Records;
pub(super) use servers::ServerSettings;
pub(super) use text::Text;
pub(super) use tokens::{Grant, Issuer, Tokens};
pub(super) use tool_file::ToolFilePath;
pub(super) use tool_packages::ToolPackages;
pub(super) use which::Which;

/// Configuration of Toolkeep. `${VAR}` and `${VAR:-default}` may stand in every value; `$${` stands
/// for the characters `${`. Paths are relative to the file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Toolkeep configuration", extend("required" = ["version"]))]
pub(super) struct File {
    /// Version of this format: 1.
    #[schemars(with = "u64", extend("const" = 1))]
    pub(super) version: Field<u64>,
    /// Address to listen on, such as `127.0.0.1:8080`.
    pub(super) listen: Field<String>,
    /// The data directory. Default: `$XDG_DATA_HOME/toolkeep`, else `~/.local/share/toolkeep`.
    pub(super) data: Field<String>,
    /// Where tools come from.
    pub(super) sources: Field<Vec<Field<Source>>>,
    /// The front doors.
    pub(super) server: Field<Server>,
    /// Calls that are held until a person has agreed.
    pub(super) approvals: Field<Approvals>,
    /// Limits on calls.
    pub(super) limits: Field<Limits>,
    /// URL of a Redis in which the manifests of HTTP modules are kept, such as `redis://HOST:6379/0`.
    /// Without it they are kept in the data directory.
    pub(super) redis: Field<String>,
    /// Who may call what. Each rule only takes away.
    pub(super) policy: Field<Policy>,
    /// The built-in tools.
    pub(super) builtins: Field<Builtins>,
    /// The record of all calls.
    pub(super) records: Field<Records>,
    /// The tool packages under `/catalogue`.
    pub(super) tool_packages: Field<ToolPackages>,
    /// Tools on other machines.
    pub(super) nodes: Field<Nodes>,
    /// Plugins: folders of tools that are read again when they change.
    pub(super) plugins: Field<Plugins>,
    /// Whose tokens are believed, beside the keys of this program.
    pub(super) tokens: Field<Tokens>,
    /// Names of the sources whose tools those may use who have no persona, the owner apart: a list, or
    /// a text with commas. Default: all.
    pub(super) default_guest_modules: Field<Names>,
}

/// One source of tools: exactly one of `tools`, `module`, `mcp` and `mcp_servers`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["name", "tools"] }, { "required": ["name", "module"] },
    { "required": ["name", "mcp"] }, { "required": ["mcp_servers"] },
]))]
pub(super) struct Source {
    /// Its name: 1 to 128 letters, digits, `_`, `.` and `-`. For `mcp_servers` it is put before the
    /// names in that file, and may be left out.
    pub(super) name: Field<String>,
    /// A tool file.
    pub(super) tools: Field<ToolFilePath>,
    /// URL of an HTTP module.
    pub(super) module: Field<String>,
    /// An MCP server: a command or a URL.
    pub(super) mcp: Field<Mcp>,
    /// A JSON file with `mcpServers`, as other programs have it.
    pub(super) mcp_servers: Field<String>,
    /// Whether its tools take long: a call then has 120 seconds instead of 30.
    pub(super) slow: Field<bool>,
    /// How far it is trusted not to change its tools. Default: `first_use` for MCP servers, `full`
    /// for tool files and modules.
    pub(super) trust: Field<TrustWord>,
    /// Whether an MCP server is trusted in what the annotations of its tools say, such as `readOnlyHint`.
    /// Default: `false`, and then an annotation can only make a tool stricter.
    pub(super) trust_annotations: Field<bool>,
    /// Tools of an MCP server that destroy what cannot be had back, by your word: `true` for all, their names,
    /// `false` for none. Without it the annotation `destructiveHint` counts. Their calls need an approval.
    pub(super) destructive: Field<Which>,
    /// Tools of an MCP server that are not offered, by the server's own names.
    pub(super) disabled_tools: Field<Names>,
    /// Settings of single servers of `mcp_servers`, by their names in that file.
    pub(super) servers: Field<BTreeMap<String, Field<ServerSettings>>>,
    /// What is sent to it with each request.
    pub(super) credential: Field<Credential>,
    /// How sure the record must be. Default: a call with effects is on the disk before it runs, any
    /// other is handed to the kernel.
    pub(super) durability: Field<DurabilityWord>,
    /// Tools that change nothing, by your word: `true` for all, or their names.
    pub(super) read_only: Field<Which>,
    /// Tools that may run twice with the effect of once, by your word: `true` for all, or their
    /// names.
    pub(super) idempotent: Field<Which>,
    /// Tools that programs may call too, not only models and people: `true` for all, or their names.
    pub(super) chain: Field<Which>,
    /// Time for one call, such as `30s`, `500ms` or `2m`.
    pub(super) timeout: Field<String>,
    /// Of an MCP server: time for one start, from the program's start or the first request to the answer to
    /// `initialize`, from `1ms` to `1h`. Default: `5m` for a `command`, which may have to download a package first;
    /// `20s` for a `url`. No other source and no client waits for it.
    pub(super) startup_timeout: Field<String>,
    /// Of an MCP server: the largest message that it may send, such as `64MiB`. Default: `16MiB`.
    pub(super) max_message: Field<Size>,
    /// `once`: a call that failed is made once more, of tools that change nothing or may run twice.
    pub(super) retry: Field<RetryWord>,
}

/// An MCP server: either `command`, which is started, or `url`, which is dialled.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["command"] }, { "required": ["url"] }]))]
pub(super) struct Mcp {
    /// The program.
    pub(super) command: Field<String>,
    /// Its arguments.
    pub(super) args: Field<Vec<Field<Text>>>,
    /// Variables it gets beside a few harmless ones.
    pub(super) env: Field<BTreeMap<String, Field<Text>>>,
    /// Where it runs. Default: the folder of this file.
    pub(super) cwd: Field<String>,
    /// Its address.
    pub(super) url: Field<String>,
    /// Headers sent with each request.
    pub(super) headers: Field<BTreeMap<String, Field<Text>>>,
    /// How tokens for it are asked for. Where nothing is said and it wants some, a person logs in:
    /// `toolkeep source login NAME`.
    pub(super) oauth: Field<OAuth>,
    /// A secret of its own for each caller. A caller without one gets an error.
    pub(super) per_caller: Field<PerCaller>,
}

/// A credential: exactly one of these.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(super) struct Credential {
    /// Sent as `Authorization: Bearer`; better a variable than the secret itself.
    pub(super) bearer: Field<String>,
    /// Name of the environment variable that holds the bearer token.
    pub(super) bearer_env: Field<String>,
}

/// The front doors.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Server {
    /// Host names, without port, under which the server may be addressed, beside those of the loopback. `serve
    /// --allowed-host` and TOOLKEEP_ALLOWED_HOSTS add to them.
    pub(super) allowed_hosts: Field<Vec<Field<String>>>,
    /// Origins of web pages that may speak to it, such as `https://console.example`.
    pub(super) allowed_origins: Field<Vec<Field<String>>>,
    /// The largest request body, such as `2MiB`.
    pub(super) max_body: Field<Size>,
    /// Whether a TLS proxy, or a private network of containers, is in front of the server. Needed to listen beyond loopback. `serve
    /// --behind-tls` and TOOLKEEP_BEHIND_TLS say the same.
    pub(super) behind_tls: Field<bool>,
    /// How much of a cage the tools that run code must have, `whole` where nothing is said.
    pub(super) cage: Field<CageWord>,
    /// How long a background server, which `toolkeep mcp` started, stays without a client: from `1ms` to `24h`.
    /// Default: `1m`.
    pub(super) idle_timeout: Field<String>,
}

/// How much of a cage the tools that run code must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CageWord {
    /// Namespaces, landlock and seccomp.
    Whole,
    /// Landlock and seccomp will do, where the kernel gives no namespaces.
    Fenced,
}

/// Limits on calls.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Limits {
    /// Calls at once, of all keys.
    pub(super) calls: Field<u64>,
    /// Calls at once, of one key and all keys that were delegated from it.
    pub(super) calls_per_key: Field<u64>,
    /// Calls at once, on one source.
    pub(super) calls_per_source: Field<u64>,
    /// Calls at once, of one key on one source; a quarter of `calls_per_source` where absent.
    pub(super) calls_per_key_and_source: Field<u64>,
    /// The largest result, such as `1MiB`.
    pub(super) result_bytes: Field<Size>,
}

/// How far a source is trusted not to change its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TrustWord {
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
pub(super) enum RetryWord {
    /// Not at all.
    Never,
    /// Once.
    Once,
}

/// How sure the record must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum DurabilityWord {
    /// Handed to the kernel before the call runs: survives the end of the program.
    Written,
    /// On the disk before the call runs: survives loss of power.
    Synced,
    /// The outcome too is on the disk before it is answered.
    Full,
}

/// A number of bytes: a number, or a text such as `2MiB`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Size(pub(super) String);

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
pub(super) struct Names(pub(super) Vec<String>);

/// A list in a text, as spec 0's settings have it: a JSON array of texts, or names with commas.
pub(super) fn list(text: &str) -> Result<Vec<String>, String> {
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
