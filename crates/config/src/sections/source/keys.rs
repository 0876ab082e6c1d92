//! The keys of a source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tool::{Durability, Secret, Trust};
use url::Url;

use super::super::address::url;
use super::super::mcp::{McpKeys, mcp};
use super::super::tools::{Tools, names, tools, unexpected};
use super::super::words::trust;
use super::SourceKind;
use crate::node::{Kind, shorten};
use crate::parsers::{duration, map, size, text, time, truth, words};
use crate::section::{Definitions, flattened, section, subsection};
use crate::value::{ConfigValue, ValueParser};

section! {
    /// One source of tools: exactly one of `tools`, `module`, `mcp` and `mcp_servers`.
    pub(super) struct SourceKeys as "Source" with { "oneOf": [
        { "required": ["name", "tools"] }, { "required": ["name", "module"] },
        { "required": ["name", "mcp"] }, { "required": ["mcp_servers"] },
    ] } {
        /// Its name: 1 to 128 letters, digits, `_`, `.` and `-`. For `mcp_servers` it is put before the
        /// names in that file, and may be left out.
        pub(super) name: Option<String> = text();
        /// A tool file.
        pub(super) tools: Option<PathBuf> = ToolFilePath;
        /// URL of an HTTP module.
        pub(super) module: Option<Url> = text().convert_text(url);
        /// An MCP server: a command or a URL.
        pub(super) mcp: Option<SourceKind> = subsection::<McpKeys>().then(|value, keys| mcp(value, value.node.place, keys));
        /// A JSON file with `mcpServers`, as other programs have it.
        pub(super) mcp_servers: Option<String> = text();
        /// How far it is trusted.
        pub(super) trusted as "..": TrustSettings = flattened::<TrustSettings>();
        /// Settings of single servers of `mcp_servers`, by their names in that file.
        pub(super) servers: BTreeMap<String, ServerSettings> = map(subsection::<ServerSettings>());
        /// What is sent to it with each request.
        pub(super) credential: Option<Secret> = subsection::<Credential>().then(credential);
        /// How sure the record must be. Default: a call with effects is on the disk before it runs, any
        /// other is handed to the kernel.
        pub(super) durability: Option<Durability> = durability();
        /// What holds for its calls.
        pub(super) calls as "..": CallSettings = flattened::<CallSettings>();
        /// `once`: a call that failed is made once more, of tools that change nothing or may run twice.
        pub(super) retry: bool = retry();
    }
}

section! {
    /// What holds for one server of the file beside or instead of what holds for all of them.
    #[derive(Clone)]
    pub(in crate::sections) struct ServerSettings as "ServerSettings" {
        /// How far it is trusted.
        pub(in crate::sections) trusted as "..": TrustSettings = flattened::<TrustSettings>();
        /// What holds for its calls.
        pub(in crate::sections) calls as "..": CallSettings = flattened::<CallSettings>();
    }
}

section! {
    /// How far a source is trusted.
    #[derive(Clone, Default)]
    pub(in crate::sections) struct TrustSettings as "TrustSettings" {
        /// Whether its tools take long: a call then has 120 seconds instead of 30.
        pub(in crate::sections) slow: Option<bool> = truth();
        /// How far it is trusted not to change its tools. Default: `first_use` for MCP servers, `full`
        /// for tool files and modules.
        pub(in crate::sections) trust: Option<Trust> = trust();
        /// Whether an MCP server is trusted in what the annotations of its tools say, such as `readOnlyHint`.
        /// Default: `false`, and then an annotation can only make a tool stricter.
        pub(in crate::sections) trust_annotations: Option<bool> = truth();
        /// Tools of an MCP server that destroy what cannot be had back, by your word: `true` for all, their names,
        /// `false` for none. Without it the annotation `destructiveHint` counts. Their calls need an approval.
        pub(in crate::sections) destructive: Option<Tools> = tools();
        /// Tools of an MCP server that are not offered, by the server's own names.
        pub(in crate::sections) disabled_tools: BTreeSet<String> = names();
    }
}

section! {
    /// What holds for the calls of a source.
    #[derive(Clone, Default)]
    pub(in crate::sections) struct CallSettings as "CallSettings" {
        /// Tools that change nothing, by your word: `true` for all, or their names.
        pub(in crate::sections) read_only: Option<Tools> = tools();
        /// Tools that may run twice with the effect of once, by your word: `true` for all, or their
        /// names.
        pub(in crate::sections) idempotent: Option<Tools> = tools();
        /// Tools that programs may call too, not only models and people: `true` for all, or their names.
        pub(in crate::sections) chain: Option<Tools> = tools();
        /// Time for one call, such as `30s`, `500ms` or `2m`.
        pub(in crate::sections) timeout: Option<Duration> = duration("is no time for a call");
        /// Of an MCP server: time for one start, from the program's start or the first request to the answer to
        /// `initialize`, from `1ms` to `1h`. Default: `5m` for a `command`, which may have to download a package first;
        /// `20s` for a `url`. No other source and no client waits for it.
        pub(in crate::sections) startup_timeout: Option<Duration> = time(Duration::from_hours(1));
        /// Of an MCP server: the largest message that it may send, such as `64MiB`. Default: `16MiB`.
        pub(in crate::sections) max_message: Option<usize> = size(256 << 20);
    }
}

section! {
    /// A credential: exactly one of these.
    struct Credential as "Credential" with { "minProperties": 1, "maxProperties": 1 } {
        /// Sent as `Authorization: Bearer`; better a variable than the secret itself.
        bearer: Option<String> = text();
        /// Name of the environment variable that holds the bearer token.
        bearer_env: Option<String> = text();
    }
}

words! {
    /// How sure the record must be.
    fn durability as "DurabilityWord" -> Durability {
        /// Handed to the kernel before the call runs: survives the end of the program.
        "written" = Durability::Written,
        /// On the disk before the call runs: survives loss of power.
        "synced" = Durability::Synced,
        /// The outcome too is on the disk before it is answered.
        "full" = Durability::Full,
    }
}

words! {
    /// How often a failed call is made again.
    fn retry as "RetryWord" -> bool {
        /// Not at all.
        "never" = false,
        /// Once.
        "once" = true,
    }
}

/// The path of a tool file. The tools themselves, as spec 2's configuration has them, are told where they go.
struct ToolFilePath;

impl ValueParser for ToolFilePath {
    type Output = PathBuf;

    fn parse(&self, value: ConfigValue<'_>) -> Option<PathBuf> {
        let expected = "the path of a tool file";
        match &value.node.kind {
            Kind::Scalar(scalar) if scalar.value().is_string() => {
                return Some(value.file.path(&scalar.text));
            }
            Kind::Scalar(_) => unexpected(value, expected),
            _ => {
                let fix = "save the tools in a file of their own and name it here, such as `tools: ./tools.yaml`";
                let found = value.node.found();
                value.fault(format!("expected {expected}, found {found}; {fix}"), "");
            }
        }
        None
    }
    fn schema(&self, definitions: &mut Definitions) -> Value {
        text().schema(definitions)
    }
}

fn credential(value: ConfigValue<'_>, keys: Credential) -> Option<Secret> {
    if value.has("bearer") && value.has("bearer_env") {
        let message = "a credential is either `bearer` or `bearer_env`";
        value.fault_hidden(message, "remove one of them");
        return None;
    }
    let bearer_at = |key| value.member(key).unwrap_or(value);
    match (keys.bearer, keys.bearer_env) {
        (Some(token), _) => bearer(bearer_at("bearer"), token),
        (_, Some(name)) => bearer_of_variable(bearer_at("bearer_env"), &name),
        (None, None) => None,
    }
}

fn bearer(value: ConfigValue<'_>, token: String) -> Option<Secret> {
    if is_token(&token) {
        return Some(Secret::new(token));
    }
    value.fault_hidden(NO_TOKEN, "");
    None
}

fn bearer_of_variable(value: ConfigValue<'_>, name: &str) -> Option<Secret> {
    let token = value.file.environment.get(name).filter(|token| !token.is_empty());
    let Some(token) = token else {
        let message = format!("the environment variable `{}` is not set", shorten(name));
        value.fault_hidden(message, "set it to the token");
        return None;
    };
    bearer(value, token.to_owned())
}

/// What is wrong with a token that is none.
pub(crate) const NO_TOKEN: &str = "a bearer token has only visible ASCII characters, at most 8192";

/// RFC 6750, section 2.1: a b64token; anything else could not stand in the header.
pub(crate) fn is_token(text: &str) -> bool {
    text.len() <= 8192 && text.bytes().all(|byte| byte.is_ascii_graphic())
}
