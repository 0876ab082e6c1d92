//! `/v1/calls`: run a tool, and see what became of a call.

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use gateway::Request;
use gateway::facade::ToolOutput;
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tool::ledger::{Kind, Record};
use tool::outcome::{Answer, Body as Answered, Failure, Status};
use tool::{CallId, CallerType, Code, End, Intent, Json, Outcome, Refusal, Step};
use uuid::Uuid;

use super::asked_for;
use super::body::{Checked, Params};
use super::route::{Param, Route};
use crate::error::ApiError;
use crate::state::Doors;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("post", "/v1/calls", "Call a tool, or all that a model asks for", post(call))
            .query(QUERY)
            .body::<Asking>()
            .reply::<Answering>(),
        Route::new("get", "/v1/calls/{id}", "What became of a call", get(one)).reply::<CallState>(),
    ]
}

const QUERY: &[Param] = &[
    Param {
        name: "format",
        what: "native where absent; else one of those of /v1/tools: the body is what a model of that \
               provider answered, and the answer the messages for it",
        kind: "string",
    },
    Param {
        name: "envelope",
        what: "tool_output: the answer as spec 3's ToolOutput; not with a format",
        kind: "string",
    },
    Param {
        name: "timeout_ms",
        what: "with a format: a limit of your own for each call; it can only shorten the tool's",
        kind: "integer",
    },
];

/// Whatever else a caller says there changes nothing.
#[derive(Debug, Deserialize)]
struct Asked {
    format: Option<String>,
    timeout_ms: Option<u64>,
    envelope: Option<String>,
}

/// One call, or a model's message.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it says what there is; which of the two it is, the query tells")]
enum Asking {
    One(CallBody),
    /// With `format`: the provider's whole response, its message, or the list in it that calls stand in.
    Message(serde_json::Value),
}

/// What came of one call, or of all of a message.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it says what there is")]
enum Answering {
    One(CallReply),
    /// With `envelope=tool_output`.
    Enveloped(serde_json::Map<String, serde_json::Value>),
    All(asked_for::Messages),
}

/// A call. Nothing in it says who calls: that is the credential's to say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CallBody {
    /// The tool's name, or its alias.
    tool: String,
    /// Its arguments, an object; `{}` where absent.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[serde(default)]
    arguments: Option<Json>,
    /// A limit of your own in milliseconds; it can only shorten the tool's.
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
struct CallReply {
    /// Names the call in the record.
    #[schemars(with = "String")]
    call_id: CallId,
    /// The tool's name.
    tool: String,
    /// `succeeded`, or `failed` where the tool itself says so.
    #[schemars(with = "String")]
    status: Status,
    /// The answer.
    #[schemars(with = "serde_json::Value")]
    result: Json,
    /// MCP content blocks as received, where the tool is an MCP server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<serde_json::Value>>")]
    content: Option<Json>,
    /// Whether the tool itself reports a failure.
    is_error: bool,
    /// Milliseconds.
    elapsed_ms: u64,
}

async fn call(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(asked): Params<Asked>,
    body: Checked,
) -> Result<Response, ApiError> {
    let timeout = asked.timeout_ms.map(std::time::Duration::from_millis);
    let envelope = match asked.envelope.as_deref() {
        None => false,
        Some("tool_output") => true,
        Some(word) => {
            let told = format!("unknown envelope `{}`; use tool_output", word.escape_debug());
            return Err(ApiError::new(Code::InvalidRequest, told));
        }
    };
    match asked.format.as_deref() {
        None | Some("native") => one_call(&doors, &principal, (body.read()?, envelope)).await,
        Some(_) if envelope => {
            Err(ApiError::new(Code::InvalidRequest, "`envelope` goes with no other `format`"))
        }
        Some(word) => asked_for::run(&doors, &principal, (word, timeout), &body.0).await,
    }
}

async fn one_call(
    doors: &Doors,
    principal: &Principal,
    (body, envelope): (CallBody, bool),
) -> Result<Response, ApiError> {
    let view = doors.parts.gateway.view(principal, CallerType::Direct);
    let tool = doors.lists.native(&view, &body.tool);
    let args = body.arguments.unwrap_or_else(Json::empty);
    let mut request = Request::new(tool.clone(), args.bytes().clone(), "rest");
    request.timeout = body.timeout_ms.map(std::time::Duration::from_millis);
    let answer = doors.parts.gateway.call(principal, request).await;
    doors.metrics.ended("rest", &answer);
    if envelope
        && let Some((entry, _)) = view.find(&tool)
        && let Some(output) = ToolOutput::of(entry, &args.value(), &answer)
    {
        return Ok(Reply(output).into_response());
    }
    let Answer { call: call_id, status, result, elapsed_ms } = answer;
    let outcome = match result.map_err(|failure| ApiError::of(call_id, failure))? {
        Step::Done(outcome) => outcome,
        // The request declared no client that could be asked, so an upstream that asks is at fault.
        Step::Wait(_) => {
            let told = "the tool asks for input, which cannot be given through this door";
            return Err(ApiError::of(call_id, Failure::new(Code::UpstreamFailed, told)));
        }
    };
    let is_error = outcome.is_error;
    let (result, content) = shown(outcome);
    let reply = CallReply { call_id, tool, status, result, content, is_error, elapsed_ms };
    Ok(Reply(reply).into_response())
}

#[derive(Deserialize)]
struct McpResult<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TextBlock {
    r#type: String,
    text: String,
}

/// The answer as one value. Of an MCP answer: its structured content, or its text where that is all
/// there is, or its content blocks; and those beside it as they came.
pub(crate) fn shown(outcome: Outcome) -> (Json, Option<Json>) {
    let json = match outcome.body {
        Answered::Value(json) => return (json, None),
        Answered::Mcp(json) => json,
    };
    let Ok(result) = serde_json::from_str::<McpResult<'_>>(json.as_str()) else {
        return (json, None);
    };
    let content = result.content.map(Json::of);
    let text = result.content.and_then(|content| {
        let blocks: Vec<TextBlock> = serde_json::from_str(content.get()).ok()?;
        match blocks.as_slice() {
            [block] if block.r#type == "text" => Some(Json::of(&block.text)),
            _ => None,
        }
    });
    let value = result.structured.map(Json::of).or(text).or_else(|| content.clone());
    (value.unwrap_or(json), content)
}

/// A call in the record.
#[derive(Debug, Serialize, JsonSchema)]
struct CallState {
    #[schemars(with = "String")]
    call_id: CallId,
    #[schemars(with = "String")]
    status: Status,
    tool: Option<String>,
    source: Option<String>,
    /// When it began, RFC 3339.
    started: Option<String>,
    elapsed_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    code: Option<Code>,
    /// All frames of the call.
    #[schemars(with = "Vec<serde_json::Value>")]
    records: Vec<Record>,
}

async fn one(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Reply<CallState>, ApiError> {
    let missing = || ApiError::new(Code::NotFound, format!("no call `{}`", id.escape_debug()));
    let call = id.parse::<Uuid>().map(CallId).map_err(|_| missing())?;
    let records = doors.parts.records.of_call(call).await?;
    let status = doors.parts.records.status(call).await?.ok_or_else(missing)?;
    let state = state_of(call, status, records);
    // Another's call looks like none at all.
    let own = state.caller.as_ref().is_some_and(|caller| caller.0 == *principal.org())
        && (principal.may(Right::RecordsRead)
            || state.caller.as_ref().is_some_and(|caller| caller.1 == principal.subject()));
    if own { Ok(Reply(state.shown)) } else { Err(missing()) }
}

struct Found {
    caller: Option<(tool::Org, String)>,
    shown: CallState,
}

fn state_of(call_id: CallId, status: Status, records: Vec<Record>) -> Found {
    let mut shown = CallState {
        call_id,
        status,
        tool: None,
        source: None,
        started: None,
        elapsed_ms: None,
        code: None,
        records: Vec::new(),
    };
    let mut caller = None;
    for record in &records {
        match record.kind {
            Kind::Intent => {
                let Ok(intent) = record.body.read::<Intent>() else { continue };
                shown.tool = Some(intent.tool.name.to_string());
                shown.source = Some(intent.tool.source.to_string());
                shown.started = Some(intent.at.to_string());
                caller = Some((intent.caller.org, intent.caller.subject));
            }
            Kind::Outcome => {
                let Ok(end) = record.body.read::<End>() else { continue };
                shown.code = end.code;
                shown.elapsed_ms = Some(end.elapsed_ms);
            }
            Kind::Refused => {
                let Ok(refusal) = record.body.read::<Refusal>() else { continue };
                shown.code = Some(refusal.code);
                shown.tool = Some(refusal.tool);
                shown.started = Some(refusal.at.to_string());
                caller = Some((refusal.caller.org, refusal.caller.subject));
            }
            Kind::Wait | Kind::Checkpoint | Kind::Tombstone | Kind::Gap | Kind::Event => {}
        }
    }
    shown.records = records;
    Found { caller, shown }
}
