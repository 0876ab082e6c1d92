//! `/v1/sources`: the sources of tools, their state and their problems.

mod login;

use std::collections::HashMap;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use catalog::Shelf;
use gateway::View;
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::node::PREFIX;
use tool::source::SourceFault;
use tool::{CallerType, Code, Problem, SourceName, Trust};

use server_core::body::Body;
use server_core::error::ApiError;
use server_core::route::Route;
use server_core::state::Doors;

pub(crate) fn routes() -> Vec<Route> {
    let mut routes = login::routes();
    routes.extend([
        Route::new("get", "/v1/sources", "The sources and how they stand", get(list))
            .reply::<SourcesReply>(),
        Route::new("post", "/v1/sources/refresh", "List all sources anew, or one", post(refresh))
            .body::<RefreshBody>()
            .reply::<SourcesReply>(),
    ]);
    routes
}

#[derive(Debug, Serialize, JsonSchema)]
struct SourcesReply {
    sources: Vec<SourceReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SourceReply {
    name: String,
    /// `builtin`, `tool_file`, `module`, `mcp`.
    kind: &'static str,
    /// `ok`, `starting`, `stale` (away; what it offered is kept) or `failed`.
    state: &'static str,
    /// Why it failed, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    fault: Option<SourceFault>,
    tools: usize,
    /// Tools of other nodes that this node may run as well, because they are shared.
    #[serde(skip_serializing_if = "is_zero")]
    shared: usize,
    /// Tools whose definition waits for someone to look at it: `/v1/pins`.
    #[serde(skip_serializing_if = "is_zero")]
    waiting: usize,
    prompts: usize,
    resources: usize,
    #[schemars(with = "String")]
    trust: Trust,
    /// Whether the operator trusts what an MCP server's annotations say; absent where not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    trust_annotations: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stale_since: Option<String>,
    /// What is wrong, where, and what to do; for keys with the right `sources:refresh`.
    #[schemars(with = "Vec<serde_json::Value>")]
    problems: Vec<Problem>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RefreshBody {
    /// Only this one.
    #[serde(default)]
    source: Option<String>,
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
) -> Reply<SourcesReply> {
    Reply(reply(&doors, &principal))
}

async fn refresh(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<RefreshBody>,
) -> Result<Reply<SourcesReply>, ApiError> {
    if !principal.may(Right::SourcesRefresh) {
        return Err(ApiError::lacks(Right::SourcesRefresh));
    }
    let only = body.source.as_deref().map(|name| visible(&principal, name)).transpose()?;
    let done = doors.parts.intake.refresh(only.as_ref()).await;
    done.map_err(|name| missing(name.as_str()))?;
    Ok(Reply(reply(&doors, &principal)))
}

/// Parses the name of a source. A source hidden by the caller's persona is reported as not found.
fn visible(principal: &Principal, name: &str) -> Result<SourceName, ApiError> {
    let source = SourceName::new(name).map_err(|_| missing(name))?;
    let seen = principal.rights().allows_source(source.as_str());
    if seen { Ok(source) } else { Err(missing(name)) }
}

fn missing(name: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("no source `{}`", name.escape_debug()))
}

/// Lists the sources. A source excluded by the caller's persona is hidden. Tools are counted as the
/// caller sees them; problems name files, addresses and hidden tools, so only callers who can act
/// on them receive them.
fn reply(doors: &Doors, principal: &Principal) -> SourcesReply {
    let view = doors.parts.gateway.view(principal, CallerType::Direct);
    let catalog = view.catalog();
    let all = principal.may(Right::SourcesRefresh);
    let tools = view.count_by_source();
    let shared = shared_by_source(&view);
    let seen =
        |shelf: &&std::sync::Arc<Shelf>| principal.rights().allows_source(shelf.source.as_str());
    let sources = catalog.shelves().filter(seen).map(|shelf| SourceReply {
        name: shelf.source.to_string(),
        kind: shelf.kind,
        state: shelf.state.as_str(),
        fault: shelf.state.fault(),
        tools: tools.get(&shelf.source).copied().unwrap_or_default(),
        shared: shared.get(shelf.source.as_str()).copied().unwrap_or_default(),
        waiting: if all { doors.parts.intake.waiting(&shelf.source) } else { 0 },
        prompts: shelf.prompts.len(),
        resources: shelf.resources.len(),
        trust: shelf.trust,
        trust_annotations: shelf.trusted_annotations,
        stale_since: shelf.stale_since.map(|since| since.to_string()),
        problems: if all { catalog.problems(&shelf.source).cloned().collect() } else { Vec::new() },
    });
    SourcesReply { sources: sources.collect() }
}

/// Counts the tools of other nodes that each node's source may run.
fn shared_by_source(view: &View) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for entry in view.tools() {
        let nodes = entry.executor.places().into_iter().map(|node| format!("{PREFIX}{node}"));
        for source in nodes.filter(|source| source != entry.key.source.as_str()) {
            *counts.entry(source).or_default() += 1;
        }
    }
    counts
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
