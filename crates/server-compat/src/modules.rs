//! The module API: modules, their tools and calls.
//!
//! The caller is identified by its credential, as everywhere: a `user_id` in a body is accepted and
//! ignored, a `user_permission` can only lower the level.

mod definition;
mod result;

use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use catalog::{Shelf, State as Standing};
use futures_util::future::join_all;
use gateway::{Given, Request};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::outcome::Answer;
use tool::source::Health;
use tool::{CallerType, Interface, Json, Level, Limits};

use definition::Definition;
use result::{Asked as ToolAsked, ToolResult};
use server_core::body::{Large, Params};
use server_core::error::ApiError;
use server_core::route::{Param, Route};
use server_core::state::Doors;

/// The source kind of an HTTP module.
const KIND: &str = "module";
/// Timeout for listing all modules in parallel; each has 10 s.
const DISCOVERY: Duration = Duration::from_secs(12);

const PERMISSION: &[Param] = &[Param {
    name: "permission",
    what: "guest, user, admin or owner; it can only lower the key's own level",
    kind: "string",
}];

pub(crate) fn open() -> Vec<Route> {
    vec![
        Route::new("get", "/health", "Whether the server lives (spec 0)", get(health))
            .reply::<Status>()
            .open(),
    ]
}

pub(crate) fn keyed() -> Vec<Route> {
    vec![
        Route::new("post", "/refresh-tools", "Discover all modules anew (spec 0)", post(refresh))
            .reply::<Refreshed>(),
        Route::new("get", "/tools", "The tools as spec 0 defines them", get(tools))
            .query(PERMISSION)
            .reply::<Tools>(),
        Route::new("post", "/execute", "Call a tool (spec 0)", post(execute))
            .body::<ToolCall>()
            .reply::<ToolResult>(),
        Route::new("get", "/api/modules", "The modules and how they are", get(list))
            .reply::<Modules>(),
        Route::new(
            "post",
            "/api/modules/{module}/execute",
            "Call a tool of a module",
            post(of_module),
        )
        .body::<ToolCall>()
        .reply::<ToolResult>(),
    ]
}

/// Whether a path belongs to the module API.
pub(crate) fn has(path: &str) -> bool {
    matches!(path, "/refresh-tools" | "/tools" | "/execute") || path.starts_with("/api/modules")
}

#[derive(Debug, Serialize, JsonSchema)]
struct Status {
    /// `ok`.
    status: &'static str,
}

async fn health() -> Reply<Status> {
    Reply(Status { status: "ok" })
}

#[derive(Debug, Serialize, JsonSchema)]
struct Refreshed {
    /// `ok`.
    status: &'static str,
    /// The modules whose manifest is known.
    modules: Vec<String>,
}

async fn refresh(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<Refreshed>, ApiError> {
    if !principal.may(Right::SourcesRefresh) {
        return Err(ApiError::lacks(Right::SourcesRefresh));
    }
    doors.parts.intake.refresh_kind(KIND, DISCOVERY).await;
    let known = |shelf: &Shelf| matches!(shelf.state, Standing::Ok | Standing::Stale);
    let modules = seen(&doors, &principal).into_iter().filter(|shelf| known(shelf));
    let modules = modules.map(|shelf| shelf.source.to_string()).collect();
    Ok(Reply(Refreshed { status: "ok", modules }))
}

/// Returns the modules that the caller's persona may use.
fn seen(doors: &Doors, principal: &Principal) -> Vec<std::sync::Arc<Shelf>> {
    let catalog = doors.parts.intake.catalog();
    let rights = principal.rights();
    let seen = |shelf: &&std::sync::Arc<Shelf>| {
        shelf.kind == KIND && rights.allows_source(shelf.source.as_str())
    };
    catalog.shelves().filter(seen).cloned().collect()
}

#[derive(Debug, Serialize, JsonSchema)]
struct Tools {
    tools: Vec<Definition>,
}

#[derive(Debug, Deserialize)]
struct Filter {
    #[serde(default)]
    permission: Option<String>,
}

/// Lists the tools. The first list discovers the modules if none is known yet.
async fn tools(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(filter): Params<Filter>,
) -> Reply<Tools> {
    doors.parts.intake.wake(KIND, DISCOVERY).await;
    let principal = lowered(&principal, filter.permission.as_deref());
    let view = doors.parts.gateway.view(&principal, CallerType::Direct);
    Reply(Tools { tools: view.tools().map(|entry| Definition::of(&entry.tool)).collect() })
}

/// Lowers the caller's level; an unknown level is the lowest one.
fn lowered(principal: &Principal, word: Option<&str>) -> Principal {
    match word {
        Some(word) => principal.lowered(word.parse().unwrap_or(Level::Guest)),
        None => principal.clone(),
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Modules {
    modules: Vec<Module>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Module {
    name: String,
    /// Where it is; for keys with the right `sources:refresh`.
    url: Option<String>,
    /// `healthy`, `unhealthy (STATUS)` or `unreachable`, by its own `GET /health`; by its last manifest
    /// for keys without that right.
    health: String,
    /// How many of its tools the caller may call.
    tools: usize,
    /// Whether its tools are only remembered.
    stale: bool,
    /// Since when.
    stale_since: Option<String>,
    /// What is wrong with it; for keys with the right `sources:refresh`.
    problem: Option<String>,
    /// All that is wrong with it and its tools, 100 at most; for the same keys.
    problems: Vec<String>,
}

/// Maximum number of reported problems per module.
const PROBLEMS: usize = 100;

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
) -> Reply<Modules> {
    let shelves = seen(&doors, &principal);
    let modules = join_all(shelves.iter().map(|shelf| module(&doors, &principal, shelf))).await;
    Reply(Modules { modules })
}

async fn module(doors: &Doors, principal: &Principal, shelf: &Shelf) -> Module {
    let may = principal.may(Right::SourcesRefresh);
    let probe = if may { doors.parts.intake.probe(&shelf.source).await } else { None };
    let view = doors.parts.gateway.view(principal, CallerType::Direct);
    let health = match (&probe, shelf.state) {
        (Some(probe), _) => probe.health,
        (None, Standing::Ok) => Health::Healthy,
        (None, _) => Health::Unreachable,
    };
    let catalog = doors.parts.intake.catalog();
    let problems = catalog.problems(&shelf.source).filter(|_| may).take(PROBLEMS);
    let problems: Vec<_> = problems.map(|problem| problem.message.clone()).collect();
    Module {
        name: shelf.source.to_string(),
        url: probe.map(|probe| probe.url),
        health: health.to_string(),
        tools: view.tools_of(shelf.source.as_str()).count(),
        stale: shelf.stale_since.is_some(),
        stale_since: shelf.stale_since.map(|since| since.to_string()),
        problem: problems.first().cloned(),
        problems,
    }
}

/// Spec 0's call.
#[derive(Debug, Deserialize, JsonSchema)]
struct ToolCall {
    /// The tool, as `module.tool`.
    tool_name: String,
    /// Its arguments; none where absent.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[serde(default)]
    #[expect(dead_code, reason = "it was taken out of the body before, as it stands")]
    arguments: Option<Json>,
    /// A level to call as; it can only lower the key's own.
    #[serde(default)]
    user_permission: Option<String>,
}

async fn execute(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    large: Large,
) -> Result<Reply<ToolResult>, ApiError> {
    let (call, arguments, limits) = large.read()?;
    Ok(Reply(run(&doors, &principal, (call, arguments, limits)).await))
}

async fn of_module(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(module): Path<String>,
    large: Large,
) -> Result<Reply<ToolResult>, ApiError> {
    let (call, arguments, limits) = large.read::<ToolCall>()?;
    let view = doors.parts.gateway.view(&principal, CallerType::Direct);
    let native = doors.lists.native(&view, &call.tool_name);
    if native.strip_prefix(module.as_str()).is_some_and(|rest| rest.starts_with('.')) {
        return Ok(Reply(run(&doors, &principal, (call, arguments, limits)).await));
    }
    // A tool of another module is not found in this one.
    let name = format!("{module}.{}", call.tool_name);
    let error = if view.has_source(&module) {
        result::unknown_tool(&call.tool_name)
    } else {
        result::unknown(&doors, &principal, &name)
    };
    Ok(Reply(ToolResult::failed(call.tool_name, error)))
}

/// Runs a call with its arguments and the limits they were parsed with.
async fn run(
    doors: &Doors,
    principal: &Principal,
    (call, arguments, limits): (ToolCall, Json, Limits),
) -> ToolResult {
    let ToolCall { tool_name, user_permission, .. } = call;
    let caller = lowered(principal, user_permission.as_deref());
    let given = Given::Checked(arguments.clone(), limits);
    let view = doors.parts.gateway.view(&caller, CallerType::Direct);
    let native = doors.lists.native(&view, &tool_name);
    let request = Request::new(native, given, Interface::Modules);
    let answer = if let Some(answer) = pending(doors, &caller, &request).await {
        answer
    } else {
        let answer = doors.parts.gateway.call(&caller, request).await;
        doors.metrics.ended(Interface::Modules, &answer);
        answer
    };
    let asked = ToolAsked { doors, principal, caller: &caller, tool_name, arguments };
    asked.told(answer)
}

/// Finds an earlier equal call. A client of the module API can only call again; a call that equals
/// a pending one, or one whose result was not fetched yet, resumes that one.
async fn pending(doors: &Doors, caller: &Principal, request: &Request) -> Option<Answer> {
    let gateway = &doors.parts.gateway;
    let call = gateway.earlier(caller, request)?;
    Box::pin(gateway.settled(caller, call, Duration::ZERO)).await.ok()
}
