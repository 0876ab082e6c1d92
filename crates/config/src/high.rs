//! The configuration as it is used: resolved, typed, checked. No variable and no default is left open.

mod mcp_tools;
mod nodes;
mod plugins;
mod server;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tool::{Durability, Secret, SourceName, Trust};
use url::Url;

pub use self::mcp_tools::McpTools;
pub use self::nodes::{KubernetesConfig, NodesConfig};
pub use self::plugins::PluginsConfig;
pub use self::server::ServerConfig;
use super::shown::{address, bearer, grant, hidden, is_false, once, show};
use super::{Faults, Place};

/// Time for one call where nothing is said (spec 0).
const TIMEOUT: Duration = Duration::from_secs(30);
/// The same for a source marked `slow` (spec 0).
const SLOW_TIMEOUT: Duration = Duration::from_mins(2);

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

/// The built-in tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BuiltinsConfig {
    /// Folders for the file tools, the usual one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<FolderConfig>,
    /// Where is searched; `None` as shipped.
    pub search: Option<SearchConfig>,
    /// The address of a Wikipedia; `None` as shipped.
    pub wikipedia: Option<String>,
    /// The address that models are downloaded from; `None` as shipped.
    pub model_mirror: Option<String>,
    /// What is taken from single tools.
    #[serde(serialize_with = "show")]
    pub tools: BTreeMap<String, tool_manifest::Narrowing>,
}

/// A folder for the file tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FolderConfig {
    /// Absolute.
    #[serde(serialize_with = "show")]
    pub path: PathBuf,
    /// Whether it may be written to.
    pub write: bool,
    /// What in it is not there for tools.
    pub protect: Vec<String>,
}

/// A search engine, by its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchConfig {
    /// A SearXNG.
    SearXng(String),
    /// DuckDuckGo's HTML page.
    DuckDuckGo(String),
}

/// Whose tokens are believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokensConfig {
    /// The address of `/mcp` as clients see it.
    pub resource: String,
    /// The issuers; no two have one name or one address.
    #[serde(serialize_with = "show")]
    pub issuers: Vec<IssuerConfig>,
}

/// One issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerConfig {
    /// What it is believed in.
    pub issuer: identity::Issuer,
    /// The address of its keys; `None` where its metadata say.
    pub jwks: Option<String>,
}

/// One source.
#[derive(Debug, Clone, Hash, Serialize)]
pub struct SourceConfig {
    /// Its name.
    pub name: SourceName,
    /// The file and the place where it is written.
    #[serde(skip)]
    pub written: (PathBuf, Place),
    /// Whether its tools take long.
    pub slow: bool,
    /// How far it is trusted.
    pub trust: Trust,
    /// The bearer token to send, if any.
    #[serde(serialize_with = "bearer")]
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
    #[serde(serialize_with = "show")]
    pub timeout: Duration,
    /// Which of an MCP server's tools are offered, and what their annotations count for.
    #[serde(flatten)]
    pub mcp_tools: McpTools,
    /// Whether a failed call is made once more.
    #[serde(serialize_with = "once")]
    pub retry: bool,
    /// Time for one start of an MCP server, the handshake included.
    #[serde(serialize_with = "show")]
    pub startup_timeout: Duration,
    /// Bytes of one message of an MCP server.
    pub max_message: usize,
    /// What it is.
    #[serde(flatten)]
    pub kind: SourceKind,
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

/// What a source is.
#[derive(Debug, Clone, Hash, Serialize)]
pub enum SourceKind {
    /// A tool file.
    #[serde(rename = "tools", serialize_with = "show")]
    ToolFile(PathBuf),
    /// An HTTP module, by its URL.
    #[serde(rename = "module", serialize_with = "show")]
    Module(Url),
    /// An MCP server that is started.
    #[serde(rename = "mcp")]
    McpCommand(McpCommand),
    /// An MCP server that is dialled.
    #[serde(rename = "mcp")]
    McpUrl {
        /// Its address.
        #[serde(serialize_with = "show")]
        url: Url,
        /// Headers sent with each request.
        #[serde(serialize_with = "show")]
        headers: Vec<(http::HeaderName, Secret)>,
        /// How tokens are asked for, where the operator says.
        oauth: Option<Box<OAuthConfig>>,
        /// A secret of its own for each caller.
        per_caller: Option<Box<PerCallerConfig>>,
    },
}

/// How tokens are asked for.
#[derive(Debug, Clone, Hash, Serialize)]
pub struct OAuthConfig {
    /// Whether with the client's own credential, rather than with a person's consent.
    #[serde(rename = "grant", serialize_with = "grant")]
    pub alone: bool,
    /// The client's id.
    pub client_id: Option<String>,
    /// How it proves that it is that client.
    #[serde(flatten)]
    pub proof: OAuthProof,
    /// Address of a document that describes it.
    #[serde(serialize_with = "address")]
    pub client_metadata: Option<String>,
    /// Scopes to ask for first.
    pub scopes: Vec<String>,
    /// The only authorization server that is asked.
    pub issuer: Option<String>,
    /// Its token endpoint.
    #[serde(serialize_with = "address")]
    pub token_endpoint: Option<String>,
    /// Whether a server may name any port of this machine.
    #[serde(skip_serializing_if = "is_false")]
    pub any_loopback_port: bool,
}

/// How a client proves who it is.
#[derive(Debug, Clone, Hash, Serialize)]
pub enum OAuthProof {
    /// Not at all.
    None,
    /// By a secret.
    #[serde(rename = "client_secret", serialize_with = "show")]
    Secret(Secret),
    /// By a private key, in PEM.
    #[serde(rename = "private_key_env", serialize_with = "show")]
    Key(Secret),
}

impl OAuthProof {
    /// What must not be seen of it.
    pub fn secret(&self) -> Option<&Secret> {
        match self {
            Self::None => None,
            Self::Secret(secret) | Self::Key(secret) => Some(secret),
        }
    }
}

/// A secret of its own for each caller.
#[derive(Debug, Clone, Hash, Serialize)]
pub struct PerCallerConfig {
    /// The header that carries it.
    #[serde(serialize_with = "show")]
    pub header: http::HeaderName,
    /// The header's whole values, by subject.
    #[serde(rename = "secrets", serialize_with = "show")]
    pub values: BTreeMap<String, Secret>,
    /// The subject that lists the tools.
    pub list_as: Option<String>,
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
}

/// How an MCP server is started.
#[derive(Debug, Clone, Hash, Serialize)]
pub struct McpCommand {
    /// The program: a path, or a name to be found in `PATH`.
    pub command: String,
    /// Its arguments. May hold secrets: other programs' files put them there.
    #[serde(serialize_with = "show")]
    pub args: Vec<Secret>,
    /// Variables it gets.
    #[serde(serialize_with = "show")]
    pub env: Vec<(String, Secret)>,
    /// Where it runs, absolute.
    #[serde(serialize_with = "show")]
    pub cwd: PathBuf,
}

/// All tools of a source, or some.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tools {
    /// All.
    All,
    /// These; none where it is empty.
    Named(BTreeSet<String>),
}

impl Tools {
    /// None.
    pub const NONE: Self = Self::Named(BTreeSet::new());

    /// Whether this one is among them.
    pub fn has(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(tool),
        }
    }
}

/// Calls that are held until a person has agreed.
#[derive(Debug, Clone, Serialize)]
pub struct ApprovalsConfig {
    /// How long a decision is waited for.
    #[serde(serialize_with = "show")]
    pub expires: Duration,
    /// Calls of one key that wait at once.
    pub pending: usize,
    /// Calls that one key may have held within a minute.
    pub per_minute: usize,
    /// Ids of the keys whose client may give the approval itself.
    #[serde(serialize_with = "show")]
    pub client_confirm: HashSet<String>,
    /// The page that a person is sent to.
    pub page: Option<String>,
    /// Who is told.
    pub webhook: Option<WebhookConfig>,
}

/// An address that is told of held calls. Both may hold secrets.
#[derive(Debug, Clone, Serialize)]
pub struct WebhookConfig {
    /// Where.
    #[serde(serialize_with = "hidden")]
    pub url: Url,
    /// The key of the signature.
    #[serde(serialize_with = "show")]
    pub secret: Secret,
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        let option_types::Patience { expires, pending, per_minute, client_confirm, .. } =
            option_types::Patience::default();
        Self { expires, pending, per_minute, client_confirm, page: None, webhook: None }
    }
}

/// Limits on calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LimitsConfig {
    /// Calls at once.
    #[serde(flatten, serialize_with = "show")]
    pub bounds: option_types::Bounds,
    /// The largest result, in bytes.
    pub result_bytes: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { bounds: option_types::Bounds::default(), result_bytes: 4 << 20 }
    }
}

/// The time for one call: what was given, else what belongs to its kind.
pub(crate) fn timeout(given: Option<Duration>, slow: bool) -> Duration {
    given.unwrap_or(if slow { SLOW_TIMEOUT } else { TIMEOUT })
}
