//! `/v1/calls`: execution of tools, and the status of calls.

mod reply;
mod state;

use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use gateway::facade::ToolOutput;
use gateway::{Given, Request};
use identity::{Narrowing, Principal};
use schemars::JsonSchema;
use serde::Deserialize;
use tool::executor::Wait;
use tool::outcome::Answer;
use tool::{CallId, CallerType, Code, Interface, Json, Step};
use uuid::Uuid;

use super::asked_for::{self, MessageOptions};
use reply::{CallReply, HeldReply, told};
use server_core::body::{Large, Params};
use server_core::context;
use server_core::error::ApiError;
use server_core::held;
use server_core::route::{Param, Route};
use server_core::state::Doors;
use state::{CallState, one};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("post", "/v1/calls", "Call a tool, or all that a model asks for", post(call))
            .query(QUERY)
            .body::<Asking>()
            .reply::<Answering>(),
        Route::new(
            "post",
            "/v1/calls/{id}/resume",
            "Wait for a held call, and go on",
            post(resume),
        )
        .query(RESUME)
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
        what: "tool_output (or to_machine): the answer as spec 3's ToolOutput; to_human: its text for people; not with a format",
        kind: "string",
    },
    Param {
        name: "timeout_ms",
        what: "with a format: a limit of your own for each call; it can only shorten the tool's",
        kind: "integer",
    },
    Param {
        name: "wait",
        what: "how long a call that is held for an approval may be waited for, such as 30s: what came of it \
               is the answer then, and else 202 with the id; with a format all such calls of the message are \
               waited for together",
        kind: "string",
    },
];

const RESUME: &[Param] = &[
    Param {
        name: "wait",
        what: "how long a call that is held may be waited for, such as 30s; not at all where absent",
        kind: "string",
    },
    Param {
        name: "format",
        what: "native where absent; else one of those of /v1/tools: the answer is the message of that provider, with \
               the id that the provider gave the call",
        kind: "string",
    },
];

/// The query parameters of `POST /v1/calls`; unknown ones are ignored.
#[derive(Debug, Deserialize)]
struct Asked {
    format: Option<String>,
    timeout_ms: Option<u64>,
    wait: Option<String>,
    envelope: Option<String>,
}

/// The query parameters for resuming a pending call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resuming {
    wait: Option<String>,
    format: Option<String>,
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
    /// With status 202: a person has to agree first.
    Held(HeldReply),
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
    #[expect(dead_code, reason = "it was taken out of the body before, as it stands")]
    arguments: Option<Json>,
    /// A limit of your own in milliseconds; it can only shorten the tool's.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// Only a tool without effects.
    #[serde(default)]
    read_only: bool,
    /// No tool that reaches the network.
    #[serde(default)]
    no_web: bool,
    /// The kind of task: `math`, `thinking`, `instruction_precision` or one of the policy's.
    #[serde(default)]
    task_type: Option<String>,
}

impl CallBody {
    fn of(large: &Large) -> Result<(Self, Given), ApiError> {
        let (body, arguments, limits) = large.read()?;
        Ok((body, Given::Checked(arguments, limits)))
    }
}

async fn call(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(asked): Params<Asked>,
    large: Large,
) -> Result<Response, ApiError> {
    let timeout = asked.timeout_ms.map(std::time::Duration::from_millis);
    let wait = asked.wait.as_deref().map(held::patience).transpose()?;
    let envelope = asked.envelope.as_deref().map(Envelope::read).transpose()?;
    match asked.format.as_deref() {
        None | Some("native") => {
            one_call(&doors, &principal, CallBody::of(&large)?, (wait, envelope)).await
        }
        Some(_) if envelope.is_some() => {
            Err(ApiError::new(Code::InvalidRequest, "`envelope` goes with no other `format`"))
        }
        Some(format) => {
            let options = MessageOptions { format, timeout, wait };
            asked_for::run(&doors, &principal, options, &large.body.0).await
        }
    }
}

/// The two output formats of the tool-file registry.
#[derive(Debug, Clone, Copy)]
enum Envelope {
    /// The registry's result fields.
    Machine,
    /// A readable text for people.
    Human,
}

impl Envelope {
    fn read(word: &str) -> Result<Self, ApiError> {
        match word {
            "tool_output" | "to_machine" => Ok(Self::Machine),
            "to_human" => Ok(Self::Human),
            _ => {
                let word: String = word.chars().take(64).flat_map(char::escape_debug).collect();
                let told = format!("unknown envelope `{word}`; use tool_output or to_human");
                Err(ApiError::new(Code::InvalidRequest, told))
            }
        }
    }

    fn reply(self, output: &ToolOutput) -> Response {
        match self {
            Self::Machine => Reply(output).into_response(),
            Self::Human => {
                // The output of a tool is always sent as plain text.
                let headers = [
                    (CONTENT_TYPE, "text/plain; charset=utf-8"),
                    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
                ];
                (headers, output.to_human()).into_response()
            }
        }
    }
}

async fn one_call(
    doors: &Doors,
    principal: &Principal,
    (body, args): (CallBody, Given),
    (wait, envelope): (Option<std::time::Duration>, Option<Envelope>),
) -> Result<Response, ApiError> {
    let CallBody { read_only, no_web, task_type, .. } = &body;
    let task_type = task_type.clone();
    let narrowing = Narrowing { read_only: *read_only, no_web: *no_web, task_type };
    let principal = &context::apply(doors, principal, &narrowing)?;
    let view = doors.parts.gateway.view(principal, CallerType::Direct);
    let tool = doors.lists.native(&view, &body.tool);
    let mut request = Request::new(tool.clone(), args.clone(), Interface::Rest);
    request.timeout = body.timeout_ms.map(std::time::Duration::from_millis);
    let mut answer = doors.parts.gateway.call(principal, request).await;
    doors.metrics.ended(Interface::Rest, &answer);
    if let (Some(wait), Ok(Step::Wait(Wait::Approval(_)))) = (wait, &answer.result) {
        answer = settled(doors, principal, (answer.call, wait)).await?;
    }
    if let Some(envelope) = envelope
        && let Some((entry, _)) = view.find(&tool)
        && let Given::Checked(args, _) = &args
        && let Some(output) = ToolOutput::of(entry, &args.value(), &answer)
    {
        return Ok(envelope.reply(&output));
    }
    told(answer, Some(tool))
}

async fn settled(
    doors: &Doors,
    principal: &Principal,
    (call, wait): (CallId, std::time::Duration),
) -> Result<Answer, ApiError> {
    let wait = doors.streams.allowed_wait(principal, wait);
    let settled = doors.parts.gateway.settled(principal, call, wait.time).await;
    settled.map_err(|failure| ApiError::of(call, failure))
}

/// Waits for the result of a pending call. An approved call that nobody runs is executed for this
/// caller.
async fn resume(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    Params(asked): Params<Resuming>,
) -> Result<Response, ApiError> {
    let missing = || ApiError::new(Code::NotFound, format!("no call `{}`", id.escape_debug()));
    let call = id.parse::<Uuid>().map(CallId).map_err(|_| missing())?;
    let wait = asked.wait.as_deref().map(held::patience).transpose()?.unwrap_or_default();
    let settled = settled(&doors, &principal, (call, wait));
    match asked.format.as_deref() {
        None | Some("native") => told(settled.await?, None),
        Some(format) => {
            Box::pin(asked_for::resume(&doors, &principal, (format, call), settled)).await
        }
    }
}
