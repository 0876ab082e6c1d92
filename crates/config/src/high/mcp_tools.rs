//! The tools of one MCP server, by the operator's word.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Tools;
use crate::shown::is_false;

/// Which of an MCP server's tools are offered, and what their annotations count for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct McpTools {
    /// Whether what the annotations say is trusted.
    #[serde(skip_serializing_if = "is_false")]
    pub trust_annotations: bool,
    /// Tools that destroy, by the operator's word; `None` where the server's counts.
    pub destructive: Option<Tools>,
    /// Tools that are not offered.
    #[serde(rename = "disabled_tools", skip_serializing_if = "BTreeSet::is_empty")]
    pub disabled: BTreeSet<String>,
    /// The only tools that are offered; `None` for all.
    #[serde(rename = "enabled_tools")]
    pub enabled: Option<BTreeSet<String>>,
}
