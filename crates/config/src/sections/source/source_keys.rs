//! The keys of a source, and those of one server of `mcp_servers`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use option_types::ToolSelection;
use serde_json::Value;
use tool::{DeferMode, Durability, Secret, SourceTrust};
use url::Url;

use super::super::http_url::http_url;
use super::super::mcp_server::{McpKeys, resolve_mcp_server};
use super::super::shared_keywords::source_trust;
use super::super::tool_selection::{name_list, report_type_mismatch, tool_selection};
use super::SourceKind;
use super::extension_names::{ExtensionMethods, extension_names};
use crate::config_value::{ConfigValue, ValueParser};
use crate::section::{SchemaDefinitions, flattened, section, subsection};
use crate::value_parsers::{boolean, byte_size, call_timeout, duration, keywords, mapping, text};
use crate::yaml_tree::{NodeKind, shorten_text};

section! {
    /// One source of tools: exactly one of `tools`, `module`, `mcp` and `mcp_servers`.
    pub(super) struct SourceKeys as "Source" with { "oneOf": [
        { "required": ["name", "tools"] }, { "required": ["name", "module"] },
        { "required": ["name", "mcp"] }, { "required": ["mcp_servers"] },
    ] } {
        /// The name: 1 to 128 letters, digits, `_`, `.` and `-`. For `mcp_servers` it is an optional prefix of the names
        /// in that file.
        pub(super) name: Option<String> = text();
        /// Path of a tool file.
        pub(super) tools: Option<PathBuf> = ToolFilePath;
        /// URL of an HTTP module.
        pub(super) module: Option<Url> = text().convert_text(http_url);
        /// An MCP server: a command or a URL.
        pub(super) mcp: Option<SourceKind> =
            subsection::<McpKeys>().and_then(|value, keys| resolve_mcp_server(value, value.node.position, keys));
        /// Path of another program's JSON file with `mcpServers`.
        pub(super) mcp_servers: Option<String> = text();
        /// The trust in the source.
        pub(super) trust as "..": TrustSettings = flattened::<TrustSettings>();
        /// Settings of single servers of `mcp_servers`, by their names in that file.
        pub(super) servers: BTreeMap<String, ServerSettings> =
            mapping(subsection::<ServerSettings>());
        /// The credential of each request.
        pub(super) credential: Option<Secret> = subsection::<CredentialKeys>().and_then(credential);
        /// When the record of a call is synced to disk. Default: `synced` for a call with effects, `written` for any
        /// other.
        pub(super) durability: Option<Durability> = durability();
        /// Settings of its tools and their calls.
        pub(super) calls as "..": CallSettings = flattened::<CallSettings>();
        /// Whether a failed call is made once more, for tools that change nothing or may run twice. Default: `never`.
        pub(super) retries_once as "retry": bool = retries_once();
    }
}

section! {
    /// Settings of one server of `mcp_servers`, which override those of all its servers.
    #[derive(Clone)]
    pub(in crate::sections) struct ServerSettings as "ServerSettings" {
        /// The trust in the source.
        pub(in crate::sections) trust as "..": TrustSettings = flattened::<TrustSettings>();
        /// Settings of its tools and their calls.
        pub(in crate::sections) calls as "..": CallSettings = flattened::<CallSettings>();
    }
}

section! {
    /// The trust in a source.
    #[derive(Clone, Default)]
    pub(in crate::sections) struct TrustSettings as "TrustSettings" {
        /// Whether its tools are slow: the default timeout of a call is then `120s` instead of `30s`. Default: `false`.
        pub(in crate::sections) is_slow as "slow": Option<bool> = boolean();
        /// Whether changed tool definitions are accepted. Default: `first_use` for MCP servers, `full` for tool files
        /// and modules.
        pub(in crate::sections) trust: Option<SourceTrust> = source_trust();
        /// Whether the annotations of an MCP server's tools are trusted, such as `readOnlyHint`. Default: `false`, and an
        /// annotation can only add restrictions.
        pub(in crate::sections) trust_annotations: Option<bool> = boolean();
        /// Destructive tools of an MCP server, whose calls need an approval: `true` for all, `false` for none, or their
        /// names. Default: the tools with the annotation `destructiveHint`.
        pub(in crate::sections) destructive: Option<ToolSelection> = tool_selection();
        /// Disabled tools of an MCP server, by the server's own names. Default: none.
        pub(in crate::sections) disabled_tools: BTreeSet<String> = name_list();
        /// Extensions of MCP that are relayed between an MCP server and clients: names such as
        /// `com.example/charts`, or mappings of a name and the methods that clients may call. Default: user
        /// interfaces of tools, `io.modelcontextprotocol/ui`, and skills, `io.modelcontextprotocol/skills`.
        pub(in crate::sections) extensions: Option<ExtensionMethods> = extension_names();
    }
}

section! {
    /// Settings of the tools of a source and of their calls.
    #[derive(Clone, Default)]
    pub(in crate::sections) struct CallSettings as "CallSettings" {
        /// Tools that change nothing: `true` for all, or their names. Default: none.
        pub(in crate::sections) read_only: Option<ToolSelection> = tool_selection();
        /// Tools whose second call has no further effect: `true` for all, or their names. Default: none.
        pub(in crate::sections) idempotent: Option<ToolSelection> = tool_selection();
        /// Tools that programs may call too, besides models and people: `true` for all, or their names. Default: none.
        pub(in crate::sections) callable_by_programs as "chain": Option<ToolSelection> = tool_selection();
        /// The timeout of one call, such as `30s`: from `1ms` to `10m`. Default: `30s`, or `120s` for a slow source.
        pub(in crate::sections) timeout: Option<Duration> = call_timeout();
        /// The timeout of one start of an MCP server, until its response to `initialize`: from `1ms` to `1h`. Default:
        /// `5m` for a `command`, which may download a package first; `20s` for a `url`. Other sources start meanwhile.
        pub(in crate::sections) startup_timeout: Option<Duration> =
            duration(Duration::from_hours(1));
        /// When an MCP server starts. Default: `at_startup`.
        pub(in crate::sections) starts_on_first_call as "start": Option<bool> = start_mode();
        /// Time without a call after which an MCP server with `start: on_first_call` is stopped: from `1s` to `24h`. Default: `5m`.
        pub(in crate::sections) idle_stop: Option<Duration> = duration(Duration::from_hours(24));
        /// The largest message of an MCP server, such as `64MiB`: from `1KiB` to `256MiB`. Default: `16MiB`.
        pub(in crate::sections) max_message_bytes as "max_message": Option<usize> =
            byte_size(256 << 20);
        /// Whether lists for models defer the definitions of its tools: a model searches for them first. Default: `auto`.
        pub(in crate::sections) defer_mode as "defer": Option<DeferMode> = defer_mode();
    }
}

keywords! {
    /// Whether the definitions of tools are deferred in lists at `/mcp` and for providers with a search.
    fn defer_mode as "DeferWord" -> DeferMode {
        /// The mode of the list decides.
        "auto" = DeferMode::Auto,
        /// No list defers them.
        "never" = DeferMode::Never,
        /// Every list defers them, and has the tools that search.
        "always" = DeferMode::Always,
    }
}

keywords! {
    /// When an MCP server starts.
    fn start_mode as "StartWord" -> bool {
        /// With Toolkeep, which lists its tools.
        "at_startup" = false,
        /// With the first call of one of its tools, which are listed as they were listed last. It is stopped after `idle_stop`.
        "on_first_call" = true,
    }
}

section! {
    /// A credential: exactly one of these.
    struct CredentialKeys as "Credential" with { "minProperties": 1, "maxProperties": 1 } {
        /// A bearer token, sent as `Authorization: Bearer`. Prefer a variable: `${TOKEN}`.
        bearer: Option<String> = text();
        /// Name of the environment variable with the bearer token.
        bearer_env: Option<String> = text();
    }
}

keywords! {
    /// When the record of a call is synced to disk.
    fn durability as "DurabilityWord" -> Durability {
        /// The kernel has the record before the call runs. It survives a crash of the program.
        "written" = Durability::Written,
        /// The disk has the record before the call runs. It survives a loss of power.
        "synced" = Durability::Synced,
        /// The disk also has the outcome before the caller receives it.
        "full" = Durability::Full,
    }
}

keywords! {
    /// Whether a failed call is made once more.
    fn retries_once as "RetryWord" -> bool {
        /// A failed call is not repeated.
        "never" = false,
        /// A failed call is made once more.
        "once" = true,
    }
}

/// Parses the path of a tool file. Spec 2's configuration has the tools themselves here, which is an error with a fix.
struct ToolFilePath;

impl ValueParser for ToolFilePath {
    type Output = PathBuf;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<PathBuf> {
        let expected = "the path of a tool file";
        match &value.node.kind {
            NodeKind::Scalar(scalar) if scalar.to_json().is_string() => {
                return Some(value.file.resolve_path(&scalar.text));
            }
            NodeKind::Scalar(_) => report_type_mismatch(value, expected),
            _ => {
                let help = "save the tools in a separate file and name it here, such as `tools: ./tools.yaml`";
                value.report_mismatch(expected, help);
            }
        }
        None
    }
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        text().json_schema(definitions)
    }
}

fn credential(value: ConfigValue<'_>, keys: CredentialKeys) -> Option<Secret> {
    if value.has_member("bearer") && value.has_member("bearer_env") {
        let message = "`bearer` and `bearer_env` exclude each other";
        value.report_redacted(message, "remove one of them");
        return None;
    }
    let member = |key| value.find_member(key).unwrap_or(value);
    match (keys.bearer, keys.bearer_env) {
        (Some(token), _) => bearer_token(member("bearer"), token),
        (_, Some(name)) => bearer_from_variable(member("bearer_env"), &name),
        (None, None) => None,
    }
}

fn bearer_token(value: ConfigValue<'_>, token: String) -> Option<Secret> {
    if is_bearer_token(&token) {
        return Some(Secret::new(token));
    }
    value.report_redacted(INVALID_TOKEN, "");
    None
}

fn bearer_from_variable(value: ConfigValue<'_>, name: &str) -> Option<Secret> {
    let token = value.file.environment.get(name).filter(|token| !token.is_empty());
    let Some(token) = token else {
        let message = format!("the environment variable `{}` is not set", shorten_text(name));
        value.report_redacted(message, "set it to the token");
        return None;
    };
    bearer_token(value, token.to_owned())
}

/// The message for an invalid bearer token.
pub(crate) const INVALID_TOKEN: &str =
    "a bearer token may contain only visible ASCII characters, at most 8192";

/// Whether a text can be sent as a bearer token (RFC 6750, section 2.1).
pub(crate) fn is_bearer_token(text: &str) -> bool {
    text.len() <= 8192 && text.bytes().all(|byte| byte.is_ascii_graphic())
}
