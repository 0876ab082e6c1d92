//! What the operator says about one MCP server.

use std::collections::BTreeSet;
use std::time::Duration;

use source_layers::ToolSelection;
use tool::{Level, Safety, Scope};

/// How an MCP server is treated. The default believes nothing and bounds everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What holds for its tools.
    pub marks: Marks,
    /// Its bounds.
    pub bounds: Bounds,
    /// Which dialect to speak.
    pub dialect: Dialect,
}

impl Default for Options {
    fn default() -> Self {
        Self { marks: Marks::default(), bounds: Bounds::default(), dialect: Dialect::Probe }
    }
}

/// Which revision of MCP to speak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Up to 2025-11-25 first, then 2026-07-28; what worked is remembered.
    #[default]
    Probe,
    /// Only the handshake of 2024-11-05 to 2025-11-25.
    Initialize,
    /// Only 2026-07-28.
    Discover,
}

/// What the operator says of the tools. Names are the server's own, without the source's prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    /// Whether the server's annotations are trusted; otherwise they count only where they make a tool
    /// stricter.
    pub trust_annotations: bool,
    /// Tools that are not offered.
    pub disabled: BTreeSet<String>,
    /// The only tools that are offered; `None` for all.
    pub enabled: Option<BTreeSet<String>>,
    /// Tools that change nothing.
    pub read_only: ToolSelection,
    /// Tools that may run twice with the effect of once.
    pub idempotent: ToolSelection,
    /// Tools that destroy what cannot be had back, and no others; `None` where the server's word counts.
    pub destructive: Option<ToolSelection>,
    /// The least level that may call them.
    pub level: Option<Level>,
    /// How much harm they can do.
    pub safety: Option<Safety>,
    /// What they reach for.
    pub scopes: Vec<Scope>,
    /// Words to group them by.
    pub categories: Vec<String>,
    /// Tools that programs may call too.
    pub chain: ToolSelection,
    /// Their time limit.
    pub timeout: Option<Duration>,
}

impl Marks {
    /// Whether a tool of this name is offered.
    pub fn offers(&self, name: &str) -> bool {
        let is_enabled = self.enabled.as_ref().is_none_or(|names| names.contains(name));
        is_enabled && !self.disabled.contains(name)
    }
}

/// What one server may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Time for one start: until a child runs, and again until the handshake is over. 20 s.
    pub start: Duration,
    /// Time to list everything, once it is up. 30 s.
    pub list: Duration,
    /// Bytes of one message. 16 MiB.
    pub message: usize,
    /// Definitions in all. 10,000.
    pub items: usize,
    /// Bytes of all definitions. 32 MiB.
    pub definitions: usize,
    /// Calls in flight at once. 256.
    pub calls: usize,
    /// Time for a child to end by itself once its input is closed, and again after SIGTERM. 1 s.
    pub grace: Duration,
}

impl Bounds {
    /// The longest that a listing may take with a start before it: both steps of the start, in either dialect.
    pub(super) fn whole_list(&self) -> Duration {
        self.start
            .saturating_mul(4)
            .saturating_add(self.list)
            .saturating_add(self.grace.saturating_mul(4))
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(20),
            list: Duration::from_secs(30),
            message: 16 << 20,
            items: 10_000,
            definitions: 32 << 20,
            calls: 256,
            grace: Duration::from_secs(1),
        }
    }
}
