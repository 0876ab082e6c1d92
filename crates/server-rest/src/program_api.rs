//! `/v1/programs`: scripts over the caller's own tools, which can pause and resume.
//!
//! A program starts as a call of `run_program`, so policy and record apply as to any call. Its
//! later state is read through [`ProgramRunner`].

use axum::extract::{Path, State};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use gateway::CallRequest;
use identity::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::call_outcome::{CallFailure, OutcomeBody as Answered};
use tool::{CallId, ErrorCode, ExecutionState, Interface, Json};

use super::call_api::parse_call_id;
use server_core::body::{DecodedBody, QueryParams};
use server_core::error::ApiError;
use server_core::pending_call;
use server_core::program_runner::{ProgramRunner, RUN_PROGRAM_TOOL};
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;
use server_core::stream_limits::OpenStream;

/// Maximum number of programs in a list.
const MAX_LISTED: usize = 100;

const WAIT_QUERY: &[QueryParam] = &[QueryParam {
    name: "wait",
    description: "time to wait for the end of the program, such as `30s`; default 0",
    schema_type: "string",
}];

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "get",
            "/v1/programs",
            "List your programs, newest first",
            get(list_programs),
        )
        .with_reply::<ProgramListReply>(),
        ApiRoute::new("post", "/v1/programs", "Run a program", post(start_program))
            .with_query(WAIT_QUERY)
            .with_body::<StartProgramBody>()
            .with_reply::<ProgramSchema>(),
        ApiRoute::new(
            "get",
            "/v1/programs/tools",
            "List the tools that your programs can call",
            get(list_chainable_tools),
        )
        .with_reply::<ChainToolsSchema>(),
        ApiRoute::new(
            "get",
            "/v1/programs/{id}",
            "Get the state of a program, or its changes as events with `Accept: text/event-stream`",
            get(show_program),
        )
        .with_query(WAIT_QUERY)
        .with_reply::<ProgramSchema>(),
        ApiRoute::new(
            "post",
            "/v1/programs/{id}/resume",
            "Resume a program; an expired approval is requested again",
            post(resume_program),
        )
        .with_query(WAIT_QUERY)
        .with_reply::<ProgramSchema>(),
        ApiRoute::new("post", "/v1/programs/{id}/cancel", "Cancel a program", post(cancel_program))
            .with_reply::<ProgramSchema>(),
    ]
}

/// A program to run: `code` or `steps`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartProgramBody {
    /// Python script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// Calls as data, each with `id`, `tool`, `arguments`, `depends_on` and `parallel_group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<Map<String, Value>>>,
    /// Input variables of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs: Option<Map<String, Value>>,
    /// Execution mode: `seq`, `dep` or `legacy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// Whether calls with side effects may run in parallel within a wave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parallel_mutations: Option<bool>,
    /// Maximum number of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_calls: Option<usize>,
    /// Whether to list the calls and those that need approval, without running the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
}

/// The state of a program.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it says what there is; `programs` writes it")]
struct ProgramSchema {
    /// ID of the program: the call that started it.
    program: String,
    /// Status: `running`, `pending_approval`, `paused`, `succeeded`, `failed`, `cancelled`,
    /// `expired`, `unknown` or `dry_run`.
    status: String,
    /// Start time, RFC 3339.
    created: String,
    /// Pending calls that the program waits for, with `call`, `approval` and `tool`.
    pending: Vec<Map<String, Value>>,
    /// Result of the program.
    result: Value,
    /// Error message of a failed program.
    error: Option<String>,
    /// Printed output of the program.
    printed: String,
    /// Observation text of the research registry, if the program ran in waves.
    observation: Option<String>,
    /// Calls in order, with `chain_index`, `tool`, `call`, `success` and `elapsed_ms`.
    calls: Vec<Map<String, Value>>,
    tools_used: usize,
    tools_called: Vec<String>,
    tool_timings: Vec<Map<String, Value>>,
    tools_success: bool,
    /// Diagnostics of the research registry: one chain with its waves.
    tool_chains: Vec<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
struct ProgramListReply {
    /// Programs, each with `program`, `status`, `created` and `pending`.
    programs: Vec<Value>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "it says what there is; `programs` writes it")]
struct ChainToolsSchema {
    count: usize,
    /// Tools, each with `function`, `tool`, `signature`, `description`, `read_only` and `effects`.
    tools: Vec<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramWaitQuery {
    wait: Option<String>,
}

async fn start_program(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(query): QueryParams<ProgramWaitQuery>,
    DecodedBody(begin): DecodedBody<StartProgramBody>,
) -> Result<Response, ApiError> {
    let wait = query.wait.as_deref().map(pending_call::parse_wait).transpose()?;
    let request =
        CallRequest::new(RUN_PROGRAM_TOOL, Json::encode(&begin).bytes().clone(), Interface::Rest);
    let answer = state.components.gateway.call_tool(&principal, request).await;
    state.metrics.observe_call(Interface::Rest, &answer);
    let failed = |failure| ApiError::from_failure(answer.call_id, failure);
    let ExecutionState::Completed(outcome) = answer.result.map_err(failed)? else {
        let message =
            "running a program needs an approval here, which this interface does not support";
        return Err(failed(CallFailure::new(ErrorCode::ApprovalRequired, message)));
    };
    let (Answered::Value(program) | Answered::Mcp(program)) = &outcome.body;
    let program = program.to_value();
    if program.get("status").and_then(Value::as_str) == Some("dry_run") {
        return Ok(program_response(program));
    }
    // The tool's result is for models; the full state of the program is returned here.
    let wait = state.streams.allowed_wait(&principal, wait.unwrap_or_default());
    let all = program_runner(&state)?.show_program(&principal, answer.call_id, wait.duration).await;
    match all {
        // The program may already be evicted, if many others ended meanwhile.
        Err(failure) if failure.code == ErrorCode::NotFound => Ok(program_response(program)),
        all => all.map(program_response).map_err(failed),
    }
}

/// Responds with the state of a program: 202 while it is paused or pending.
fn program_response(program: Value) -> Response {
    let status = program.get("status").and_then(Value::as_str);
    let waits = matches!(status, Some("pending_approval" | "paused"));
    let status = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
    (status, Reply(program)).into_response()
}

async fn list_programs(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<ProgramListReply>, ApiError> {
    let programs = program_runner(&state)?
        .list_programs(&principal, MAX_LISTED)
        .await
        .map_err(program_error)?;
    Ok(Reply(ProgramListReply { programs }))
}

async fn show_program(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    QueryParams(query): QueryParams<ProgramWaitQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let accept = headers.get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
    // A client that accepts both gets the JSON response.
    if accept.contains("text/event-stream") && !accept.contains("application/json") {
        let stream = state.streams.open_stream(&principal);
        let stream = stream.map_err(|message| ApiError::new(ErrorCode::RateLimited, message))?;
        let states = program_runner(&state)?
            .watch_program(&principal, parse_program_id(&id)?)
            .await
            .map_err(program_error)?;
        return Ok(event_stream(states, stream));
    }
    let wait = query.wait.as_deref().map(pending_call::parse_wait).transpose()?.unwrap_or_default();
    let wait = state.streams.allowed_wait(&principal, wait);
    program_runner(&state)?
        .show_program(&principal, parse_program_id(&id)?, wait.duration)
        .await
        .map(program_response)
        .map_err(program_error)
}

/// Streams each state of a program as an event, until its end.
fn event_stream(states: BoxStream<'static, Value>, stream: OpenStream) -> Response {
    let events = states.map(move |state| {
        // Counts as open as long as the stream is polled.
        let _open = &stream;
        Ok::<_, std::convert::Infallible>(Event::default().event("program").data(state.to_string()))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

async fn resume_program(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    QueryParams(query): QueryParams<ProgramWaitQuery>,
) -> Result<Response, ApiError> {
    let wait = query.wait.as_deref().map(pending_call::parse_wait).transpose()?.unwrap_or_default();
    let wait = state.streams.allowed_wait(&principal, wait);
    program_runner(&state)?
        .resume_program(&principal, parse_program_id(&id)?, wait.duration)
        .await
        .map(program_response)
        .map_err(program_error)
}

async fn cancel_program(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    program_runner(&state)?
        .cancel_program(&principal, parse_program_id(&id)?)
        .await
        .map(program_response)
        .map_err(program_error)
}

async fn list_chainable_tools(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<Value>, ApiError> {
    program_runner(&state)?.chainable_tools(&principal).map(Reply).map_err(program_error)
}

fn program_error(failure: CallFailure) -> ApiError {
    ApiError::new(failure.code, failure.message)
}

fn program_runner(state: &ServerState) -> Result<&dyn ProgramRunner, ApiError> {
    let none = || ApiError::new(ErrorCode::NotFound, "this server does not support programs");
    state.components.programs.as_deref().ok_or_else(none)
}

fn parse_program_id(id: &str) -> Result<CallId, ApiError> {
    parse_call_id(id, "program")
}
