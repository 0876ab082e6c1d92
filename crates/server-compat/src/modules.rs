//! The module API: modules, their tools and calls.
//!
//! The caller is identified by its credential, as everywhere: a `user_id` in a body is accepted and
//! ignored, a `user_permission` can only lower the level.

mod tool_definition;
mod tool_result;

use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use catalog::{SourceCatalog, SourceState as Standing};
use futures_util::future::join_all;
use gateway::{CallRequest, RequestArguments};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::call_outcome::CallResponse;
use tool::source::SourceHealth;
use tool::{CallerType, Interface, Json, JsonLimits, PermissionLevel};

use server_core::body::{CallRequestBody, QueryParams};
use server_core::error::ApiError;
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;
use tool_definition::ToolDefinition;
use tool_result::{CompletedCall as ToolAsked, ToolResult};

/// The source kind of an HTTP module.
const MODULE_KIND: &str = "module";
/// Timeout for listing all modules in parallel; each has 10 s.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(12);

const PERMISSION_QUERY: &[QueryParam] = &[QueryParam {
    name: "permission",
    description: "level: guest, user, admin or owner; it can only lower the level of the key",
    schema_type: "string",
}];

pub(crate) fn public_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "get",
            "/health",
            "Check that the server is alive (module API)",
            get(show_health),
        )
        .with_reply::<ModuleHealthReply>()
        .without_key(),
    ]
}

pub(crate) fn module_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "post",
            "/refresh-tools",
            "Refresh the manifests of all modules (module API)",
            post(refresh_modules),
        )
        .with_reply::<RefreshModulesReply>(),
        ApiRoute::new(
            "get",
            "/tools",
            "List the tools in the module API's format",
            get(list_tools),
        )
        .with_query(PERMISSION_QUERY)
        .with_reply::<ModuleToolsReply>(),
        ApiRoute::new("post", "/execute", "Call a tool (module API)", post(execute_tool))
            .with_body::<ExecuteModuleToolBody>()
            .with_reply::<ToolResult>(),
        ApiRoute::new(
            "get",
            "/api/modules",
            "List the modules and their health",
            get(list_modules),
        )
        .with_reply::<ModuleListReply>(),
        ApiRoute::new(
            "post",
            "/api/modules/{module}/execute",
            "Call a tool of a module",
            post(execute_in_module),
        )
        .with_body::<ExecuteModuleToolBody>()
        .with_reply::<ToolResult>(),
    ]
}

/// Whether a path belongs to the module API.
pub(crate) fn is_module_route(path: &str) -> bool {
    matches!(path, "/refresh-tools" | "/tools" | "/execute") || path.starts_with("/api/modules")
}

#[derive(Debug, Serialize, JsonSchema)]
struct ModuleHealthReply {
    /// The text `ok`.
    status: &'static str,
}

async fn show_health() -> Reply<ModuleHealthReply> {
    Reply(ModuleHealthReply { status: "ok" })
}

#[derive(Debug, Serialize, JsonSchema)]
struct RefreshModulesReply {
    /// The text `ok`.
    status: &'static str,
    /// Modules whose manifest is known.
    modules: Vec<String>,
}

async fn refresh_modules(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<RefreshModulesReply>, ApiError> {
    if !principal.has_right(Right::SourcesRefresh) {
        return Err(ApiError::missing_right(Right::SourcesRefresh));
    }
    state.components.intake.refresh_kind(MODULE_KIND, DISCOVERY_TIMEOUT).await;
    let known = |shelf: &SourceCatalog| matches!(shelf.state, Standing::Current | Standing::Stale);
    let modules = visible_modules(&state, &principal).into_iter().filter(|shelf| known(shelf));
    let modules = modules.map(|shelf| shelf.source.to_string()).collect();
    Ok(Reply(RefreshModulesReply { status: "ok", modules }))
}

/// Returns the modules that the caller's persona may use.
fn visible_modules(
    state: &ServerState,
    principal: &Principal,
) -> Vec<std::sync::Arc<SourceCatalog>> {
    let view = state.components.gateway.view_for(principal, CallerType::Direct);
    let rights = principal.rights_class();
    let seen = |shelf: &&std::sync::Arc<SourceCatalog>| {
        shelf.kind == MODULE_KIND && rights.allows_source(shelf.source.as_str())
    };
    view.full_catalog().list_sources().filter(seen).cloned().collect()
}

#[derive(Debug, Serialize, JsonSchema)]
struct ModuleToolsReply {
    tools: Vec<ToolDefinition>,
}

#[derive(Debug, Deserialize)]
struct ModuleToolsQuery {
    #[serde(default)]
    permission: Option<String>,
}

/// Lists the tools. The first list discovers the modules if none is known yet.
async fn list_tools(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(filter): QueryParams<ModuleToolsQuery>,
) -> Reply<ModuleToolsReply> {
    state.components.intake.refresh_if_unlisted(MODULE_KIND, DISCOVERY_TIMEOUT).await;
    let principal = lower_level(&principal, filter.permission.as_deref());
    let view = state.components.gateway.view_for(&principal, CallerType::Direct);
    Reply(ModuleToolsReply {
        tools: view.list_tools().map(|entry| ToolDefinition::from_tool(&entry.tool)).collect(),
    })
}

/// Lowers the caller's level; an unknown level is the lowest one.
fn lower_level(principal: &Principal, level: Option<&str>) -> Principal {
    match level {
        Some(word) => principal.with_max_level(word.parse().unwrap_or(PermissionLevel::Guest)),
        None => principal.clone(),
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct ModuleListReply {
    modules: Vec<ModuleReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ModuleReply {
    name: String,
    /// URL of the module; requires the right `sources:refresh`.
    url: Option<String>,
    /// `healthy`, `unhealthy (STATUS)` or `unreachable`, from the module's `GET /health`; from its
    /// last manifest for keys without the right `sources:refresh`.
    health: String,
    /// Number of the module's tools that the caller may call.
    tools: usize,
    /// Whether the module is unavailable and its tools come from the stored manifest.
    #[serde(rename = "stale")]
    is_stale: bool,
    /// Time since which the tools are stale.
    stale_since: Option<String>,
    /// First problem of the module; requires the right `sources:refresh`.
    problem: Option<String>,
    /// Problems of the module and its tools, at most 100; requires the right `sources:refresh`.
    problems: Vec<String>,
}

/// Maximum number of reported problems per module.
const MAX_PROBLEMS: usize = 100;

async fn list_modules(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Reply<ModuleListReply> {
    let shelves = visible_modules(&state, &principal);
    let modules =
        join_all(shelves.iter().map(|shelf| module_reply(&state, &principal, shelf))).await;
    Reply(ModuleListReply { modules })
}

async fn module_reply(
    state: &ServerState,
    principal: &Principal,
    shelf: &SourceCatalog,
) -> ModuleReply {
    let may = principal.has_right(Right::SourcesRefresh);
    let probe = if may { state.components.intake.probe_source(&shelf.source).await } else { None };
    let view = state.components.gateway.view_for(principal, CallerType::Direct);
    let health = match (&probe, shelf.state) {
        (Some(probe), _) => probe.health,
        (None, Standing::Current) => SourceHealth::Healthy,
        (None, _) => SourceHealth::Unreachable,
    };
    let catalog = view.full_catalog();
    let problems = catalog.source_problems(&shelf.source).filter(|_| may).take(MAX_PROBLEMS);
    let problems: Vec<_> = problems.map(|problem| problem.message.clone()).collect();
    ModuleReply {
        name: shelf.source.to_string(),
        url: probe.map(|probe| probe.url),
        health: health.to_string(),
        tools: view.tools_of(shelf.source.as_str()).count(),
        is_stale: shelf.stale_since.is_some(),
        stale_since: shelf.stale_since.map(|since| since.to_string()),
        problem: problems.first().cloned(),
        problems,
    }
}

/// A call in the module API's format.
#[derive(Debug, Deserialize, JsonSchema)]
struct ExecuteModuleToolBody {
    /// Name of the tool, as `module.tool`.
    tool_name: String,
    /// Arguments of the call; empty if absent.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[serde(default)]
    #[expect(dead_code, reason = "it was taken out of the body before, as it stands")]
    arguments: Option<Json>,
    /// Level to call with; it can only lower the level of the key.
    #[serde(default)]
    user_permission: Option<String>,
}

async fn execute_tool(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    large: CallRequestBody,
) -> Result<Reply<ToolResult>, ApiError> {
    let (call, arguments, limits) = large.decode()?;
    Ok(Reply(run_tool(&state, &principal, (call, arguments, limits)).await))
}

async fn execute_in_module(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(module): Path<String>,
    large: CallRequestBody,
) -> Result<Reply<ToolResult>, ApiError> {
    let (call, arguments, limits) = large.decode::<ExecuteModuleToolBody>()?;
    let view = state.components.gateway.view_for(&principal, CallerType::Direct);
    let native = state.tool_lists.resolve_tool_name(&view, &call.tool_name);
    if native.strip_prefix(module.as_str()).is_some_and(|rest| rest.starts_with('.')) {
        return Ok(Reply(run_tool(&state, &principal, (call, arguments, limits)).await));
    }
    // A tool of another module is not found in this one.
    let name = format!("{module}.{}", call.tool_name);
    let error = if view.has_source(&module) {
        tool_result::unknown_tool_message(&call.tool_name)
    } else {
        tool_result::not_found_message(&state, &principal, &name)
    };
    Ok(Reply(ToolResult::from_error(call.tool_name, error)))
}

/// Runs a call with its arguments and the limits they were parsed with.
async fn run_tool(
    state: &ServerState,
    principal: &Principal,
    (call, arguments, limits): (ExecuteModuleToolBody, Json, JsonLimits),
) -> ToolResult {
    let ExecuteModuleToolBody { tool_name, user_permission, .. } = call;
    let caller = lower_level(principal, user_permission.as_deref());
    let given = RequestArguments::Validated(arguments.clone(), limits);
    let view = state.components.gateway.view_for(&caller, CallerType::Direct);
    let native = state.tool_lists.resolve_tool_name(&view, &tool_name);
    let request = CallRequest::new(native, given, Interface::Modules);
    let answer = if let Some(answer) = find_pending_result(state, &caller, &request).await {
        answer
    } else {
        let answer = state.components.gateway.call_tool(&caller, request).await;
        state.metrics.observe_call(Interface::Modules, &answer);
        answer
    };
    let completed =
        ToolAsked { doors: state, principal, lowered_caller: &caller, tool_name, arguments };
    completed.into_tool_result(answer)
}

/// Finds an earlier equal call. A client of the module API can only call again; a call that equals
/// a pending one, or one whose result was not fetched yet, resumes that one.
async fn find_pending_result(
    state: &ServerState,
    caller: &Principal,
    request: &CallRequest,
) -> Option<CallResponse> {
    let gateway = &state.components.gateway;
    let call = gateway.find_unfetched_call(caller, request)?;
    Box::pin(gateway.wait_for_result(caller, call, Duration::ZERO)).await.ok()
}
