//! Operator's options for one MCP server.

use std::collections::BTreeSet;
use std::time::Duration;

use ::mcp::extensions::AllowedExtensions;
use source_layers::ToolSelection;
use tool::{AccessScope, PermissionLevel, SafetyLevel};

/// Options of an MCP server. By default the server is not trusted and everything has a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpOptions {
    /// Overrides for the server's tools.
    pub overrides: TraitOverrides,
    /// Limits of the server.
    pub limits: ServerLimits,
    /// Protocol era to use.
    pub era_selection: EraSelection,
    /// When the server starts.
    pub start_mode: StartMode,
    /// Extensions of MCP that are relayed between the server and clients.
    pub extensions: AllowedExtensions,
}

/// When the server of a source starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StartMode {
    /// With the first listing.
    #[default]
    AtStartup,
    /// With the first call. Until then its tools are listed as it listed them last.
    OnFirstCall {
        /// Time without a call after which it is stopped.
        idle_stop: Duration,
    },
}

impl Default for McpOptions {
    fn default() -> Self {
        Self {
            overrides: TraitOverrides::default(),
            limits: ServerLimits::default(),
            era_selection: EraSelection::Detect,
            start_mode: StartMode::AtStartup,
            extensions: AllowedExtensions::default(),
        }
    }
}

/// Protocol era that Toolkeep uses with a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EraSelection {
    /// Tries versions up to 2025-11-25 first, then 2026-07-28, and remembers the one that worked.
    #[default]
    Detect,
    /// Only the handshake of 2024-11-05 to 2025-11-25.
    Handshake,
    /// Only 2026-07-28.
    Stateless,
}

/// Operator's overrides for the tools of a server, by the server's own tool names, without prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraitOverrides {
    /// Whether the server's annotations are trusted. Otherwise they count only if they make a tool
    /// stricter.
    pub trusts_annotations: bool,
    /// Tools that are not offered.
    pub disabled_tools: BTreeSet<String>,
    /// The only tools that are offered; `None` for all.
    pub enabled_tools: Option<BTreeSet<String>>,
    /// Tools that change nothing.
    pub read_only: ToolSelection,
    /// Tools that may run twice with the effect of once.
    pub idempotent: ToolSelection,
    /// Tools that destroy data irrecoverably, and no others; `None` if the server's annotation
    /// counts.
    pub destructive: Option<ToolSelection>,
    /// Minimum level that may call them.
    pub min_level: Option<PermissionLevel>,
    /// Safety level of the tools.
    pub safety: Option<SafetyLevel>,
    /// Access scopes of the tools.
    pub scopes: Vec<AccessScope>,
    /// Categories of the tools.
    pub categories: Vec<String>,
    /// Tools that programs may call.
    pub callable_by_programs: ToolSelection,
    /// Time limit of a call.
    pub timeout: Option<Duration>,
}

impl TraitOverrides {
    /// Whether a tool of this name is offered.
    pub fn is_offered(&self, name: &str) -> bool {
        let is_enabled = self.enabled_tools.as_ref().is_none_or(|names| names.contains(name));
        is_enabled && !self.disabled_tools.contains(name)
    }
}

/// Resource limits of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Time for one start: until the child runs, and again until the handshake completes. 20 s.
    pub start_timeout: Duration,
    /// Time to list all items once the server is up. 30 s.
    pub list_timeout: Duration,
    /// Bytes of one message. 16 MiB.
    pub max_message_bytes: usize,
    /// Maximum definitions in total. 10,000.
    pub max_definitions: usize,
    /// Bytes of all definitions. 32 MiB.
    pub max_definition_bytes: usize,
    /// Calls in flight at once. 256.
    pub max_in_flight_calls: usize,
    /// Time for a child to exit once its input is closed, and again after SIGTERM. 1 s.
    pub shutdown_grace: Duration,
}

impl ServerLimits {
    /// Maximum time of a listing that includes a start: both steps of the start, in both eras.
    pub(super) fn max_listing_time(&self) -> Duration {
        self.start_timeout
            .saturating_mul(4)
            .saturating_add(self.list_timeout)
            .saturating_add(self.shutdown_grace.saturating_mul(4))
    }
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            start_timeout: Duration::from_secs(20),
            list_timeout: Duration::from_secs(30),
            max_message_bytes: 16 << 20,
            max_definitions: 10_000,
            max_definition_bytes: 32 << 20,
            max_in_flight_calls: 256,
            shutdown_grace: Duration::from_secs(1),
        }
    }
}
