//! One source: where its tools come from, and what holds for them.

mod keys;
mod settings;

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tool::{Durability, Secret, SourceName, Trust};
use url::Url;

pub(super) use self::keys::ServerSettings;
use self::keys::SourceKeys;
pub(crate) use self::keys::{NO_TOKEN, is_token};
pub(crate) use self::settings::SourceSettings;
use super::mcp::McpCommand;
use super::mcp_file::ServersEntry;
use super::oauth::{OAuthConfig, PerCallerConfig};
use super::tools::Tools;
use crate::section::{Definitions, subsection};
use crate::shown::{HIDDEN, Show};
use crate::value::{ConfigValue, ValueParser};
use crate::{Fault, Place};

/// One source.
#[derive(Debug, Clone, Hash)]
pub struct SourceConfig {
    /// Its name.
    pub name: SourceName,
    /// The file and the place where it is written.
    pub written: (PathBuf, Place),
    /// Whether its tools take long.
    pub slow: bool,
    /// How far it is trusted.
    pub trust: Trust,
    /// The bearer token to send, if any.
    pub credential: Option<Secret>,
    /// How sure the record must be; `None` where effects decide.
    pub durability: Option<Durability>,
    /// Tools that change nothing, by the operator's word.
    pub read_only: Tools,
    /// Tools that may run twice, by the operator's word.
    pub idempotent: Tools,
    /// Tools that programs may call too.
    pub chain: Tools,
    /// Time for one call.
    pub timeout: Duration,
    /// Which of an MCP server's tools are offered, and what their annotations count for.
    pub mcp_tools: McpTools,
    /// Whether a failed call is made once more.
    pub retry: bool,
    /// Time for one start of an MCP server, the handshake included.
    pub startup_timeout: Duration,
    /// Bytes of one message of an MCP server.
    pub max_message: usize,
    /// What it is.
    pub kind: SourceKind,
}

/// Which of an MCP server's tools are offered, and what their annotations count for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct McpTools {
    /// Whether what the annotations say is trusted.
    pub trust_annotations: bool,
    /// Tools that destroy, by the operator's word; `None` where the server's counts.
    pub destructive: Option<Tools>,
    /// Tools that are not offered.
    pub disabled: BTreeSet<String>,
    /// The only tools that are offered; `None` for all.
    pub enabled: Option<BTreeSet<String>>,
}

/// What a source is.
#[derive(Debug, Clone, Hash)]
pub enum SourceKind {
    /// A tool file.
    ToolFile(PathBuf),
    /// An HTTP module, by its URL.
    Module(Url),
    /// An MCP server that is started.
    McpCommand(McpCommand),
    /// An MCP server that is dialled.
    McpUrl {
        /// Its address.
        url: Url,
        /// Headers sent with each request.
        headers: Vec<(http::HeaderName, Secret)>,
        /// How tokens are asked for, where the operator says.
        oauth: Option<Box<OAuthConfig>>,
        /// A secret of its own for each caller.
        per_caller: Option<Box<PerCallerConfig>>,
    },
}

impl SourceConfig {
    /// Changes with anything that the source is made of, its secrets included; where it is written does not make it
    /// another source. Means nothing beyond this process.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Self { written: (PathBuf::new(), Place::NONE), ..self.clone() }.hash(&mut hasher);
        hasher.finish()
    }
}

impl SourceKind {
    /// The word for it, as it stands in the file.
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

/// Reads the list of sources. One name, one source: the first stays.
pub(crate) struct SourceList;

impl ValueParser for SourceList {
    type Output = Vec<SourceConfig>;

    fn parse(&self, value: ConfigValue<'_>) -> Option<Vec<SourceConfig>> {
        let mut names = HashSet::new();
        let is_first = |source: &SourceConfig| {
            let is_first = names.insert(source.name.clone());
            if !is_first {
                let message = format!("there is a source `{}` already", source.name);
                let fault = Fault::new(&source.written.0, source.written.1, message);
                value.file.sink.add(fault.fix("give it another name"));
            }
            is_first
        };
        Some(value.items()?.flat_map(entry).filter(is_first).collect())
    }
    fn schema(&self, definitions: &mut Definitions) -> Value {
        crate::parsers::list(subsection::<SourceKeys>()).schema(definitions)
    }
}

/// What one entry stands for: one source, several for `mcp_servers`, none where it is faulty.
fn entry(value: ConfigValue<'_>) -> Vec<SourceConfig> {
    let faults = value.file.sink.count();
    let is_sound = || value.file.sink.count() == faults;
    let Some(keys) = value.parse(&subsection::<SourceKeys>()) else { return Vec::new() };
    let given = value.which_of(&["tools", "module", "mcp", "mcp_servers"]);
    if given.len() > 1 {
        let message = format!("a source is one thing, and here are {}", given.join(" and "));
        value.fault(message, "make a source of each");
        return Vec::new();
    }
    let SourceKeys { name, trusted, calls, credential, durability, retry, .. } = keys;
    let settings =
        SourceSettings { trusted, calls, enabled_tools: None, credential, durability, retry };
    if let Some((file, path)) = value.member("mcp_servers").zip(keys.mcp_servers) {
        // The file's own faults take single servers down.
        let entry = ServersEntry { prefix: name, settings, servers: keys.servers };
        let is_sound = is_sound();
        let sources = entry.sources(file, &path);
        return if is_sound { sources } else { Vec::new() };
    }
    let name = source_name(value, name);
    if given.is_empty() {
        let fix = "say one of `tools: FILE`, `module: URL`, `mcp: {…}` and `mcp_servers: FILE`";
        value.fault("the source does not say where its tools come from", fix);
    }
    let kind = keys.tools.map(SourceKind::ToolFile).or(keys.module.map(SourceKind::Module));
    let Some((name, kind)) = name.zip(kind.or(keys.mcp)) else { return Vec::new() };
    check_kind(value, &kind);
    let written = (value.file.sink.file.to_owned(), value.node.place);
    if is_sound() { vec![settings.source(name, kind, written)] } else { Vec::new() }
}

fn source_name(value: ConfigValue<'_>, name: Option<String>) -> Option<SourceName> {
    let Some(name) = name else {
        if !value.has("name") {
            value.fault("the source has no name", "add `name: …`");
        }
        return None;
    };
    let fault = |error: String| value.member("name").unwrap_or(value).fault(error, "");
    SourceName::of_operator(&name).map_err(|error| fault(error.to_string())).ok()
}

/// What belongs to sources of another kind is reported: it would be taken to hold.
fn check_kind(value: ConfigValue<'_>, kind: &SourceKind) {
    if value.has("credential") {
        match kind {
            SourceKind::ToolFile(_) | SourceKind::McpCommand(_) => {
                let fix = "give a command its secrets by `env`";
                value.fault_hidden("only what is reached by a URL takes a `credential`", fix);
            }
            SourceKind::McpUrl { oauth, per_caller, .. }
                if oauth.is_some() || per_caller.is_some() =>
            {
                let message = "a source has one credential, and here are `credential` and another";
                value.fault_hidden(message, "remove one of them");
            }
            SourceKind::Module(_) | SourceKind::McpUrl { .. } => {}
        }
    }
    let of_mcp =
        ["trust_annotations", "destructive", "disabled_tools", "startup_timeout", "max_message"];
    let misplaced = if kind.is_mcp() { Vec::new() } else { value.which_of(&of_mcp) };
    for key in misplaced {
        value.fault(format!("`{key}` is a setting of an MCP server"), "remove it");
    }
    if value.has("servers") {
        value.fault("`servers` is a setting of `mcp_servers`", "remove it");
    }
}

impl Show for SourceConfig {
    fn show(&self) -> Value {
        // Bounds of an MCP server are no settings of another source.
        let of_mcp = |value: Value| if self.kind.is_mcp() { value } else { Value::Null };
        let McpTools { trust_annotations, destructive, disabled, enabled } = &self.mcp_tools;
        let mut shown = json!({
            "name": self.name,
            "slow": self.slow,
            "trust": self.trust,
            "credential": { "bearer": self.credential.as_ref().map(|_| HIDDEN) },
            "durability": self.durability,
            "read_only": self.read_only.show(),
            "idempotent": self.idempotent.show(),
            "chain": self.chain.show(),
            "timeout": self.timeout.show(),
            "trust_annotations": trust_annotations.then_some(true),
            "destructive": destructive.show(),
            "disabled_tools": (!disabled.is_empty()).then_some(disabled),
            "enabled_tools": enabled,
            "retry": if self.retry { "once" } else { "never" },
            "startup_timeout": of_mcp(self.startup_timeout.show()),
            "max_message": of_mcp(self.max_message.show()),
        });
        if let Some(members) = shown.as_object_mut() {
            members.insert(self.kind.as_str().to_owned(), self.kind.show());
        }
        shown
    }
}

impl Show for SourceKind {
    fn show(&self) -> Value {
        match self {
            Self::ToolFile(path) => path.show(),
            Self::Module(url) => url.show(),
            Self::McpCommand(command) => command.show(),
            Self::McpUrl { url, headers, oauth, per_caller } => json!({
                "url": url.show(),
                "headers": headers.show(),
                "oauth": oauth.as_ref().map(|it| it.show()),
                "per_caller": per_caller.as_ref().map(|it| it.show()),
            }),
        }
    }
}
