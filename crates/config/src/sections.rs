//! The sections of the file, each with its keys and its rules.

mod address;
mod approvals;
mod builtins;
mod limits;
mod mcp;
mod mcp_file;
mod nodes;
mod oauth;
mod plugins;
mod policy;
mod records;
mod server;
mod source;
mod tokens;
mod tool_packages;
mod tools;
mod words;

pub(crate) use self::address::http_url;
pub use self::approvals::{ApprovalsConfig, WebhookConfig};
pub use self::builtins::{BuiltinsConfig, FolderConfig, SearchConfig};
pub use self::limits::LimitsConfig;
pub use self::mcp::McpCommand;
pub use self::nodes::{KubernetesConfig, NodesConfig};
pub use self::oauth::{OAuthConfig, OAuthProof, PerCallerConfig};
pub use self::plugins::PluginsConfig;
pub(crate) use self::policy::PolicyKeys;
pub(crate) use self::records::{Checkpoints, Records};
pub use self::server::ServerConfig;
pub(crate) use self::server::{host, host_fault};
pub use self::source::{McpTools, SourceConfig, SourceKind};
pub(crate) use self::source::{NO_TOKEN, SourceList, SourceSettings, is_token};
pub(crate) use self::tokens::tokens;
pub use self::tokens::{IssuerConfig, TokensConfig};
pub use self::tools::Tools;
pub(crate) use self::tools::{listed, names};
