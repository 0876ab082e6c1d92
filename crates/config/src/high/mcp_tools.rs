//! The tools of one MCP server, by the operator's word.

use std::collections::BTreeSet;

use super::Tools;

/// Which of an MCP server's tools are offered, and what their annotations count for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
