//! The sections of the file, each with its keys and its rules.

mod access_tokens;
mod approvals;
mod builtins;
mod http_url;
mod limits;
mod mcp_server;
mod mcp_servers_file;
mod nodes;
mod plugins;
mod policy;
mod records;
mod server;
mod shared_keywords;
mod source;
mod tool_listing;
mod tool_packages;
mod tool_selection;
mod upstream_auth;

pub(crate) use self::access_tokens::check_issuers;
pub use self::access_tokens::{AccessTokensConfig, IssuerConfig};
pub use self::approvals::{ApprovalsConfig, WebhookConfig};
pub use self::builtins::{BuiltinsConfig, FileRootConfig, SearchEngineConfig};
pub(crate) use self::http_url::parse_http_url;
pub use self::limits::LimitsConfig;
pub use self::mcp_server::McpCommandConfig;
pub use self::nodes::NodesConfig;
pub use self::plugins::PluginsConfig;
pub(crate) use self::policy::PolicyKeys;
pub(crate) use self::records::{CheckpointsConfig, RecordsConfig};
pub use self::server::ServerConfig;
pub(crate) use self::server::{invalid_host_error, parse_host};
pub(crate) use self::source::{INVALID_TOKEN, SourceListParser, SourceSettings, is_bearer_token};
pub use self::source::{McpToolsConfig, SourceConfig, SourceKind};
pub use self::tool_listing::ToolListingConfig;
pub(crate) use self::tool_selection::{name_list, parse_name_list};
pub use self::upstream_auth::{CallerSecretsConfig, OAuthClientAuth, OAuthConfig};
