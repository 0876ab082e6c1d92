//! The sources of tools as a principal sees them: their state, their tools and their problems.

use std::collections::HashMap;

use catalog::SourceCatalog;
use gateway::CatalogView;
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use tool::node_registry::NODE_SOURCE_PREFIX;
use tool::source::SourceErrorKind;
use tool::{CallerType, ErrorCode, Problem, SourceName, SourceTrust};

use crate::authorization_checks::require_right;
use crate::error::ApiError;
use crate::server_state::ServerState;

/// All sources that the caller may know.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceListReply {
    /// The sources, by name.
    pub sources: Vec<SourceReply>,
}

/// A source and its state.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceReply {
    /// Name of the source.
    pub name: String,
    /// Kind: `builtin`, `tool_file`, `module` or `mcp`.
    pub kind: &'static str,
    /// State: `ok`, `starting`, `stale` (unavailable, with its last known tools) or `failed`.
    pub state: &'static str,
    /// Error word of a failed source.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub fault: Option<SourceErrorKind>,
    /// Number of tools that the caller may call.
    pub tools: usize,
    /// Number of shared tools of other nodes that this node may also run.
    #[serde(skip_serializing_if = "is_zero")]
    #[serde(rename = "shared")]
    pub shared_tools: usize,
    /// Number of tools whose definition waits for approval (`/v1/pins`).
    #[serde(skip_serializing_if = "is_zero")]
    #[serde(rename = "waiting")]
    pub pending_pins: usize,
    /// Number of prompts.
    pub prompts: usize,
    /// Number of resources.
    pub resources: usize,
    /// How far its definitions are trusted.
    #[schemars(with = "String")]
    pub trust: SourceTrust,
    /// Whether the annotations of an MCP server are trusted; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub trust_annotations: bool,
    /// Whether it is unavailable, or has problems that the caller may know; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_attention: bool,
    /// Whether a person can sign in to its server (`/v1/sources/login`); absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "login")]
    pub uses_login: bool,
    /// Since when it is unavailable, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_since: Option<String>,
    /// Problems with their location and fix; requires the right `sources:refresh`.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub problems: Vec<Problem>,
}

/// Lists the sources. A source excluded by the caller's persona is hidden. Tools are counted as the
/// caller sees them; problems name files, addresses and hidden tools, so only callers who can act
/// on them receive them.
pub fn list_sources(server_state: &ServerState, principal: &Principal) -> SourceListReply {
    let view = server_state.components.gateway.view_for(principal, CallerType::Direct);
    let catalog = view.full_catalog();
    let all = principal.has_right(Right::SourcesRefresh);
    let tools = view.count_by_source();
    let shared = shared_by_source(&view);
    let seen = |shelf: &&std::sync::Arc<SourceCatalog>| {
        is_source_visible(principal, shelf.source.as_str())
    };
    let problems_of = |shelf: &SourceCatalog| {
        if all { catalog.source_problems(&shelf.source).cloned().collect() } else { Vec::new() }
    };
    let sources = catalog.list_sources().filter(seen).map(|shelf| {
        let problems: Vec<Problem> = problems_of(shelf);
        let is_available = matches!(shelf.state.as_str(), "ok" | "starting");
        SourceReply {
            needs_attention: !is_available || !problems.is_empty(),
            uses_login: all && uses_login(server_state, &shelf.source),
            name: shelf.source.to_string(),
            kind: shelf.kind,
            state: shelf.state.as_str(),
            fault: shelf.state.error_kind(),
            tools: tools.get(&shelf.source).copied().unwrap_or_default(),
            shared_tools: shared.get(shelf.source.as_str()).copied().unwrap_or_default(),
            pending_pins: if all {
                server_state.components.intake.pins_to_review(&shelf.source)
            } else {
                0
            },
            prompts: shelf.prompts.len(),
            resources: shelf.resources.len(),
            trust: shelf.trust,
            trust_annotations: shelf.trusted_annotations,
            stale_since: shelf.stale_since.map(|since| since.to_string()),
            problems,
        }
    });
    SourceListReply { sources: sources.collect() }
}

/// Whether a principal may know a source: one that its persona excludes is hidden.
pub fn is_source_visible(principal: &Principal, source: &str) -> bool {
    principal.rights_class().allows_source(source)
}

fn uses_login(state: &ServerState, source: &SourceName) -> bool {
    let source = state.components.intake.find_source(source);
    source.is_some_and(|source| source.consent_flow().is_some())
}

/// Lists the tools of all sources again, or of one, and returns the sources afterwards.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right; [`ErrorCode::NotFound`] for a source that the caller
/// may not know.
pub async fn refresh_sources(
    server_state: &ServerState,
    principal: &Principal,
    only: Option<&str>,
) -> Result<SourceListReply, ApiError> {
    require_right(principal, Right::SourcesRefresh)?;
    let only = only.map(|name| parse_visible_source(principal, name)).transpose()?;
    let done = server_state.components.intake.refresh_sources(only.as_ref()).await;
    done.map_err(|name| no_such_source(name.as_str()))?;
    Ok(list_sources(server_state, principal))
}

/// Parses the name of a source. A source hidden by the caller's persona is reported as not found.
///
/// # Errors
/// [`ErrorCode::NotFound`].
pub fn parse_visible_source(principal: &Principal, name: &str) -> Result<SourceName, ApiError> {
    let source = SourceName::new(name).map_err(|_| no_such_source(name))?;
    let seen = principal.rights_class().allows_source(source.as_str());
    if seen { Ok(source) } else { Err(no_such_source(name)) }
}

/// The error for a source that does not exist, or that the caller may not know.
pub fn no_such_source(name: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("no source `{}`", name.escape_debug()))
}

/// Counts the tools of other nodes that each node's source may run.
fn shared_by_source(view: &CatalogView) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for entry in view.list_tools() {
        let nodes =
            entry.executor.node_ids().into_iter().map(|node| format!("{NODE_SOURCE_PREFIX}{node}"));
        for source in nodes.filter(|source| source != entry.tool_key.source.as_str()) {
            *counts.entry(source).or_default() += 1;
        }
    }
    counts
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
