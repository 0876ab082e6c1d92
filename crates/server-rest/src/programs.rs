//! `/v1/programs`: scripts over the caller's own tools, which can pause and resume.
//!
//! A program starts as a call of `run_program`, so policy and record apply as to any call. Its
//! later state is read through [`Programs`].

use axum::extract::{Path, State};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use gateway::Request;
use identity::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::outcome::{Body as Answered, Failure};
use tool::{CallId, Code, Interface, Json, Step};
use uuid::Uuid;

use server_core::body::{Body, Params};
use server_core::error::ApiError;
use server_core::held;
use server_core::programs::{Programs, RUN};
use server_core::route::{Param, Route};
use server_core::state::Doors;
use server_core::streams::OpenStream;

/// Maximum number of programs in a list.
const LIST: usize = 100;

const WAIT: &[Param] = &[Param {
    name: "wait",
    what: "how long to wait for its end, such as `30s`; it answers as it stands where absent",
    kind: "string",
}];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/programs", "Your programs, the newest first", get(list))
            .reply::<Listed>(),
        Route::new("post", "/v1/programs", "Run a program", post(begin))
            .query(WAIT)
            .body::<Begin>()
            .reply::<Program>(),
        Route::new("get", "/v1/programs/tools", "What your programs can call", get(chainable))
            .reply::<Chainable>(),
        Route::new(
            "get",
            "/v1/programs/{id}",
            "What became of a program; each change as an event, where `text/event-stream` is asked for",
            get(one),
        )
            .query(WAIT)
            .reply::<Program>(),
        Route::new(
            "post",
            "/v1/programs/{id}/resume",
            "Let a program go on; one about which nobody decided in time asks again",
            post(resume),
        )
        .query(WAIT)
        .reply::<Program>(),
        Route::new("post", "/v1/programs/{id}/cancel", "End a program", post(cancel))
            .reply::<Program>(),
    ]
}

/// A program to be run: `code` or `steps`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Begin {
    /// The script, in Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// Calls as data: `id`, `tool`, `arguments`, `depends_on`, `parallel_group` of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<Map<String, Value>>>,
    /// Names that have a value at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs: Option<Map<String, Value>>,
    /// `seq`, `dep` or `legacy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// In waves, calls with effects may run at once too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parallel_mutations: Option<bool>,
    /// Calls that it may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_calls: Option<usize>,
    /// Only tells what it would call, and what would be held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
}

/// A program.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it says what there is; `programs` writes it")]
#[expect(clippy::struct_field_names, reason = "the field is the id, as answers have it")]
struct Program {
    /// Names it: the call that began it.
    program: String,
    /// `running`, `pending_approval`, `paused`, `succeeded`, `failed`, `cancelled`, `expired`, `unknown` or
    /// `dry_run`.
    status: String,
    /// RFC 3339.
    created: String,
    /// The held calls that it waits for: `call`, `approval`, `tool`.
    pending: Vec<Map<String, Value>>,
    /// What it came to.
    result: Value,
    /// Why it failed.
    error: Option<String>,
    /// What it printed.
    printed: String,
    /// Spec 3's text of a turn, where it ran in waves.
    observation: Option<String>,
    /// Its calls, in order: `chain_index`, `tool`, `call`, `success`, `elapsed_ms`.
    calls: Vec<Map<String, Value>>,
    tools_used: usize,
    tools_called: Vec<String>,
    tool_timings: Vec<Map<String, Value>>,
    tools_success: bool,
    /// Spec 3's diagnostics: one chain, with its waves.
    tool_chains: Vec<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
struct Listed {
    /// `program`, `status`, `created` and `pending` of each.
    programs: Vec<Value>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "it says what there is; `programs` writes it")]
struct Chainable {
    count: usize,
    /// `function`, `tool`, `signature`, `description`, `read_only` and `effects` of each.
    tools: Vec<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Waiting {
    wait: Option<String>,
}

async fn begin(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(asked): Params<Waiting>,
    Body(begin): Body<Begin>,
) -> Result<Response, ApiError> {
    let wait = asked.wait.as_deref().map(held::patience).transpose()?;
    let request = Request::new(RUN, Json::of(&begin).bytes().clone(), Interface::Rest);
    let answer = doors.parts.gateway.call(&principal, request).await;
    doors.metrics.ended(Interface::Rest, &answer);
    let failed = |failure| ApiError::of(answer.call, failure);
    let Step::Done(outcome) = answer.result.map_err(failed)? else {
        let told =
            "running a program needs an approval itself here, which this door cannot wait for";
        return Err(failed(Failure::new(Code::ApprovalRequired, told)));
    };
    let (Answered::Value(program) | Answered::Mcp(program)) = &outcome.body;
    let program = program.value();
    if program.get("status").and_then(Value::as_str) == Some("dry_run") {
        return Ok(told(program));
    }
    // The tool's result is for models; the full state of the program is returned here.
    let wait = doors.streams.allowed_wait(&principal, wait.unwrap_or_default());
    let all = of(&doors)?.show(&principal, answer.call, wait.time).await;
    match all {
        // The program may already be evicted, if many others ended meanwhile.
        Err(failure) if failure.code == Code::NotFound => Ok(told(program)),
        all => all.map(told).map_err(failed),
    }
}

/// Responds with the state of a program: 202 while it is paused or pending.
fn told(program: Value) -> Response {
    let status = program.get("status").and_then(Value::as_str);
    let waits = matches!(status, Some("pending_approval" | "paused"));
    let status = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
    (status, Reply(program)).into_response()
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<Listed>, ApiError> {
    let programs = of(&doors)?.list(&principal, LIST).await.map_err(refused)?;
    Ok(Reply(Listed { programs }))
}

async fn one(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    Params(asked): Params<Waiting>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let accept = headers.get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
    // A client that accepts both gets the JSON response.
    if accept.contains("text/event-stream") && !accept.contains("application/json") {
        let stream = doors.streams.open(&principal);
        let stream = stream.map_err(|told| ApiError::new(Code::RateLimited, told))?;
        let states = of(&doors)?.follow(&principal, named(&id)?).await.map_err(refused)?;
        return Ok(events(states, stream));
    }
    let wait = asked.wait.as_deref().map(held::patience).transpose()?.unwrap_or_default();
    let wait = doors.streams.allowed_wait(&principal, wait);
    of(&doors)?.show(&principal, named(&id)?, wait.time).await.map(told).map_err(refused)
}

/// Streams each state of a program as an event, until its end.
fn events(states: BoxStream<'static, Value>, stream: OpenStream) -> Response {
    let events = states.map(move |state| {
        // Counts as open as long as the stream is polled.
        let _open = &stream;
        Ok::<_, std::convert::Infallible>(Event::default().event("program").data(state.to_string()))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

async fn resume(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    Params(asked): Params<Waiting>,
) -> Result<Response, ApiError> {
    let wait = asked.wait.as_deref().map(held::patience).transpose()?.unwrap_or_default();
    let wait = doors.streams.allowed_wait(&principal, wait);
    of(&doors)?.resume(&principal, named(&id)?, wait.time).await.map(told).map_err(refused)
}

async fn cancel(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    of(&doors)?.cancel(&principal, named(&id)?).await.map(told).map_err(refused)
}

async fn chainable(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<Value>, ApiError> {
    of(&doors)?.chainable(&principal).map(Reply).map_err(refused)
}

fn refused(failure: Failure) -> ApiError {
    ApiError::new(failure.code, failure.message)
}

fn of(doors: &Doors) -> Result<&dyn Programs, ApiError> {
    let none = || ApiError::new(Code::NotFound, "this server runs no programs");
    doors.parts.programs.as_deref().ok_or_else(none)
}

fn named(id: &str) -> Result<CallId, ApiError> {
    let missing = || ApiError::new(Code::NotFound, format!("no program `{}`", id.escape_debug()));
    id.parse::<Uuid>().map(CallId).map_err(|_| missing())
}
