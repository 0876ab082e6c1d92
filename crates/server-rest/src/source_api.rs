//! `/v1/sources`: the sources of tools, their state and their problems.

mod login_api;

use std::collections::HashMap;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use catalog::SourceCatalog;
use gateway::CatalogView;
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::node_registry::NODE_SOURCE_PREFIX;
use tool::source::SourceErrorKind;
use tool::{CallerType, ErrorCode, Problem, SourceName, SourceTrust};

use super::authorization_checks::require_right;
use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(crate) fn routes() -> Vec<ApiRoute> {
    let mut routes = login_api::routes();
    routes.extend([
        ApiRoute::new("get", "/v1/sources", "List the sources and their state", get(list_sources))
            .with_reply::<SourceListReply>(),
        ApiRoute::new(
            "post",
            "/v1/sources/refresh",
            "Refresh the tool lists of all sources, or of \
                                                   one",
            post(refresh_sources),
        )
        .with_body::<RefreshSourcesBody>()
        .with_reply::<SourceListReply>(),
    ]);
    routes
}

#[derive(Debug, Serialize, JsonSchema)]
struct SourceListReply {
    sources: Vec<SourceReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SourceReply {
    name: String,
    /// Kind: `builtin`, `tool_file`, `module` or `mcp`.
    kind: &'static str,
    /// State: `ok`, `starting`, `stale` (unavailable, with its last known tools) or `failed`.
    state: &'static str,
    /// Error word of a failed source.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    fault: Option<SourceErrorKind>,
    tools: usize,
    /// Number of shared tools of other nodes that this node may also run.
    #[serde(skip_serializing_if = "is_zero")]
    #[serde(rename = "shared")]
    shared_tools: usize,
    /// Number of tools whose definition waits for approval (`/v1/pins`).
    #[serde(skip_serializing_if = "is_zero")]
    #[serde(rename = "waiting")]
    pending_pins: usize,
    prompts: usize,
    resources: usize,
    #[schemars(with = "String")]
    trust: SourceTrust,
    /// Whether the annotations of an MCP server are trusted; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    trust_annotations: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stale_since: Option<String>,
    /// Problems with their location and fix; requires the right `sources:refresh`.
    #[schemars(with = "Vec<serde_json::Value>")]
    problems: Vec<Problem>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RefreshSourcesBody {
    /// Source to refresh; all if absent.
    #[serde(default)]
    source: Option<String>,
}

async fn list_sources(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Reply<SourceListReply> {
    Reply(sources_reply(&state, &principal))
}

async fn refresh_sources(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<RefreshSourcesBody>,
) -> Result<Reply<SourceListReply>, ApiError> {
    require_right(&principal, Right::SourcesRefresh)?;
    let only =
        body.source.as_deref().map(|name| parse_visible_source(&principal, name)).transpose()?;
    let done = state.components.intake.refresh_sources(only.as_ref()).await;
    done.map_err(|name| no_such_source(name.as_str()))?;
    Ok(Reply(sources_reply(&state, &principal)))
}

/// Parses the name of a source. A source hidden by the caller's persona is reported as not found.
fn parse_visible_source(principal: &Principal, name: &str) -> Result<SourceName, ApiError> {
    let source = SourceName::new(name).map_err(|_| no_such_source(name))?;
    let seen = principal.rights_class().allows_source(source.as_str());
    if seen { Ok(source) } else { Err(no_such_source(name)) }
}

fn no_such_source(name: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("no source `{}`", name.escape_debug()))
}

/// Lists the sources. A source excluded by the caller's persona is hidden. Tools are counted as the
/// caller sees them; problems name files, addresses and hidden tools, so only callers who can act
/// on them receive them.
fn sources_reply(server_state: &ServerState, principal: &Principal) -> SourceListReply {
    let view = server_state.components.gateway.view_for(principal, CallerType::Direct);
    let catalog = view.full_catalog();
    let all = principal.has_right(Right::SourcesRefresh);
    let tools = view.count_by_source();
    let shared = shared_by_source(&view);
    let seen = |shelf: &&std::sync::Arc<SourceCatalog>| {
        principal.rights_class().allows_source(shelf.source.as_str())
    };
    let sources = catalog.list_sources().filter(seen).map(|shelf| SourceReply {
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
        problems: if all {
            catalog.source_problems(&shelf.source).cloned().collect()
        } else {
            Vec::new()
        },
    });
    SourceListReply { sources: sources.collect() }
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
