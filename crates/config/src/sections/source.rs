//! One source of tools: its kind, its trust and its calls.

mod extension_names;
mod source_keys;
mod source_settings;

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::PathBuf;
use std::time::Duration;

use option_types::ToolSelection;
use serde_json::{Value, json};
use tool::{DeferMode, Durability, Secret, SourceName, SourceTrust};
use url::Url;

use self::extension_names::{ExtensionMethods, extensions_to_json};
pub(super) use self::source_keys::ServerSettings;
use self::source_keys::SourceKeys;
pub(crate) use self::source_keys::{INVALID_TOKEN, is_bearer_token};
pub(crate) use self::source_settings::SourceSettings;
use super::mcp_server::McpCommandConfig;
use super::mcp_servers_file::McpServersEntry;
use super::upstream_auth::{CallerSecretsConfig, OAuthConfig};
use crate::config_display::{REDACTED, RedactedJson};
use crate::config_value::{ConfigValue, ValueParser};
use crate::section::{SchemaDefinitions, subsection};
use crate::value_parsers::list;
use crate::{ConfigError, ConfigLocation, ConfigPosition};

/// One source of tools.
#[derive(Debug, Clone, Hash)]
pub struct SourceConfig {
    /// The name of the source.
    pub name: SourceName,
    /// The file and the position that define it.
    pub location: ConfigLocation,
    /// Whether its calls have the longer default timeout.
    pub is_slow: bool,
    /// Whether changed tool definitions are accepted.
    pub trust: SourceTrust,
    /// The bearer token of each request.
    pub credential: Option<Secret>,
    /// When the record of a call is synced to disk; `None` where the effects of the tool decide.
    pub durability: Option<Durability>,
    /// Whether lists for models defer its tools.
    pub defer_mode: DeferMode,
    /// Tools that change nothing, by the operator's statement.
    pub read_only: ToolSelection,
    /// Tools that may run twice, by the operator's statement.
    pub idempotent: ToolSelection,
    /// Tools that programs may call too.
    pub callable_by_programs: ToolSelection,
    /// The timeout of one call.
    pub timeout: Duration,
    /// The enabled tools of an MCP server, and the trust in their annotations.
    pub mcp_tools: McpToolsConfig,
    /// Whether a failed call is made once more.
    pub retries_once: bool,
    /// The timeout of one start of an MCP server, including the handshake.
    pub startup_timeout: Duration,
    /// Time without a call after which an MCP server is stopped that starts with its first call; `None` for one that
    /// starts with Toolkeep.
    pub idle_stop: Option<Duration>,
    /// The largest message of an MCP server, in bytes.
    pub max_message_bytes: usize,
    /// The kind, with its settings.
    pub kind: SourceKind,
}

/// The enabled tools of an MCP server, and the trust in their annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct McpToolsConfig {
    /// Whether annotations are trusted.
    pub trust_annotations: bool,
    /// Destructive tools, by the operator's statement; `None` where the annotations decide.
    pub destructive: Option<ToolSelection>,
    /// The tools that are disabled.
    pub disabled_tools: BTreeSet<String>,
    /// The only enabled tools; `None` for all.
    pub enabled_tools: Option<BTreeSet<String>>,
    /// Extensions of MCP that are relayed; `None` for the default.
    pub extensions: Option<ExtensionMethods>,
}

/// The kind of a source.
#[derive(Debug, Clone, Hash)]
pub enum SourceKind {
    /// A tool file, by its path.
    ToolFile(PathBuf),
    /// An HTTP module, by its URL.
    Module(Url),
    /// An MCP server that Toolkeep starts.
    McpCommand(McpCommandConfig),
    /// An MCP server at a URL.
    McpUrl {
        /// The URL of the server.
        url: Url,
        /// Headers of each request.
        headers: Vec<(http::HeaderName, Secret)>,
        /// OAuth, where the operator configures it.
        oauth: Option<Box<OAuthConfig>>,
        /// Secrets of the callers.
        per_caller: Option<Box<CallerSecretsConfig>>,
    },
}

impl SourceConfig {
    /// Hashes all settings of the source, including its secrets, without its location. It is only comparable between
    /// processes of one build.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let location = ConfigLocation { file: PathBuf::new(), position: ConfigPosition::UNKNOWN };
        Self { location, ..self.clone() }.hash(&mut hasher);
        hasher.finish()
    }
}

impl SourceKind {
    /// The key of this kind in the file.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::ToolFile(_) => "tools",
            Self::Module(_) => "module",
            Self::McpCommand(_) | Self::McpUrl { .. } => "mcp",
        }
    }

    fn is_mcp(&self) -> bool {
        matches!(self, Self::McpCommand(_) | Self::McpUrl { .. })
    }
}

/// Parses the list of sources. Of two sources with one name, the first stays.
pub(crate) struct SourceListParser;

impl ValueParser for SourceListParser {
    type Output = Vec<SourceConfig>;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<Vec<SourceConfig>> {
        let mut names = HashSet::new();
        let is_first = |source: &SourceConfig| {
            let is_first = names.insert(source.name.clone());
            if !is_first {
                let message = format!("a source named `{}` is already defined", source.name);
                let ConfigLocation { file, position } = &source.location;
                let error = ConfigError::new(file, *position, message);
                value.file.errors.push_error(error.with_help("choose another name"));
            }
            is_first
        };
        Some(value.require_items()?.flat_map(parse_entry).filter(is_first).collect())
    }
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        list(subsection::<SourceKeys>()).json_schema(definitions)
    }
}

/// Parses one entry: one source, several for `mcp_servers`, none for an invalid one.
fn parse_entry(value: ConfigValue<'_>) -> Vec<SourceConfig> {
    let errors_before = value.file.errors.error_count();
    let is_valid = || value.file.errors.error_count() == errors_before;
    let Some(keys) = value.parse_with(&subsection::<SourceKeys>()) else { return Vec::new() };
    let kinds = value.present_keys(&["tools", "module", "mcp", "mcp_servers"]);
    if kinds.len() > 1 {
        let message = format!("a source has one kind; found {}", kinds.join(" and "));
        value.report(message, "write one source for each");
        return Vec::new();
    }
    let SourceKeys { name, trust, calls, credential, durability, retries_once, .. } = keys;
    let settings =
        SourceSettings { trust, calls, enabled_tools: None, credential, durability, retries_once };
    if let Some((file, path)) = value.find_member("mcp_servers").zip(keys.mcp_servers) {
        // An error in that file drops only its server.
        let entry = McpServersEntry { prefix: name, settings, servers: keys.servers };
        let is_valid = is_valid();
        let sources = entry.read_sources(file, &path);
        return if is_valid { sources } else { Vec::new() };
    }
    let name = source_name(value, name);
    if kinds.is_empty() {
        let help = "write one of `tools: FILE`, `module: URL`, `mcp: {…}` and `mcp_servers: FILE`";
        value.report("the source has no kind", help);
    }
    let kind = keys.tools.map(SourceKind::ToolFile).or(keys.module.map(SourceKind::Module));
    let Some((name, kind)) = name.zip(kind.or(keys.mcp)) else { return Vec::new() };
    check_kind(value, &kind);
    let location =
        ConfigLocation { file: value.file.errors.file.to_owned(), position: value.node.position };
    if is_valid() { vec![settings.into_source(name, kind, location)] } else { Vec::new() }
}

fn source_name(value: ConfigValue<'_>, name: Option<String>) -> Option<SourceName> {
    let Some(name) = name else {
        if !value.has_member("name") {
            value.report("the source has no name", "add `name: …`");
        }
        return None;
    };
    let report = |error: String| value.find_member("name").unwrap_or(value).report(error, "");
    SourceName::from_operator(&name).map_err(|error| report(error.to_string())).ok()
}

/// Reports settings that this kind of source ignores.
fn check_kind(value: ConfigValue<'_>, kind: &SourceKind) {
    if value.has_member("credential") {
        match kind {
            SourceKind::ToolFile(_) | SourceKind::McpCommand(_) => {
                let help = "pass secrets to a command in `env`";
                value.report_redacted("`credential` is only for a source with a URL", help);
            }
            SourceKind::McpUrl { oauth, per_caller, .. }
                if oauth.is_some() || per_caller.is_some() =>
            {
                let message = "`credential` excludes `oauth` and `per_caller`";
                value.report_redacted(message, "remove one of them");
            }
            SourceKind::Module(_) | SourceKind::McpUrl { .. } => {}
        }
    }
    let mcp_keys = [
        "trust_annotations",
        "destructive",
        "disabled_tools",
        "extensions",
        "startup_timeout",
        "start",
        "idle_stop",
        "max_message",
    ];
    let misplaced = if kind.is_mcp() { Vec::new() } else { value.present_keys(&mcp_keys) };
    for key in misplaced {
        value.report(format!("`{key}` is only for an MCP server"), "remove it");
    }
    if value.has_member("idle_stop") && !value.has_member("start") {
        let help = "write `start: on_first_call` too, or remove it";
        value.report("`idle_stop` is only for a server with `start: on_first_call`", help);
    }
    if value.has_member("servers") {
        value.report("`servers` is only for `mcp_servers`", "remove it");
    }
}

impl RedactedJson for SourceConfig {
    fn to_redacted_json(&self) -> Value {
        // Only MCP servers have these limits.
        let if_mcp = |value: Value| if self.kind.is_mcp() { value } else { Value::Null };
        let McpToolsConfig {
            trust_annotations,
            destructive,
            disabled_tools,
            enabled_tools,
            extensions,
        } = &self.mcp_tools;
        let mut json = json!({
            "name": self.name,
            "slow": self.is_slow,
            "trust": self.trust,
            "credential": { "bearer": self.credential.as_ref().map(|_| REDACTED) },
            "durability": self.durability,
            "defer": self.defer_mode,
            "read_only": self.read_only.to_redacted_json(),
            "idempotent": self.idempotent.to_redacted_json(),
            "chain": self.callable_by_programs.to_redacted_json(),
            "timeout": self.timeout.to_redacted_json(),
            "trust_annotations": trust_annotations.then_some(true),
            "destructive": destructive.to_redacted_json(),
            "disabled_tools": (!disabled_tools.is_empty()).then_some(disabled_tools),
            "enabled_tools": enabled_tools,
            "extensions": extensions.as_ref().map(extensions_to_json),
            "retry": if self.retries_once { "once" } else { "never" },
            "startup_timeout": if_mcp(self.startup_timeout.to_redacted_json()),
            "start": if_mcp(if self.idle_stop.is_some() { "on_first_call" } else { "at_startup" }.into()),
            "idle_stop": self.idle_stop.as_ref().map(RedactedJson::to_redacted_json),
            "max_message": if_mcp(self.max_message_bytes.to_redacted_json()),
        });
        if let Some(members) = json.as_object_mut() {
            members.insert(self.kind.as_str().to_owned(), self.kind.to_redacted_json());
        }
        json
    }
}

impl RedactedJson for SourceKind {
    fn to_redacted_json(&self) -> Value {
        match self {
            Self::ToolFile(path) => path.to_redacted_json(),
            Self::Module(url) => url.to_redacted_json(),
            Self::McpCommand(command) => command.to_redacted_json(),
            Self::McpUrl { url, headers, oauth, per_caller } => json!({
                "url": url.to_redacted_json(),
                "headers": headers.to_redacted_json(),
                "oauth": oauth.as_ref().map(|oauth| oauth.to_redacted_json()),
                "per_caller": per_caller.as_ref().map(|secrets| secrets.to_redacted_json()),
            }),
        }
    }
}
