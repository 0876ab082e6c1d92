//! `/v1/calls`: execution of tools, and the status of calls.

mod call_reply;
mod call_status;

use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use gateway::result_formats::ToolOutput;
use gateway::{CallRequest, RequestArguments};
use identity::{Principal, RequestRestrictions};
use schemars::JsonSchema;
use serde::Deserialize;
use tool::call_outcome::CallResponse;
use tool::display_text::truncate_and_escape_debug;
use tool::executor::PendingReason;
use tool::{CallId, CallerType, ErrorCode, ExecutionState, Interface, Json};
use uuid::Uuid;

use super::batch_calls::{self, BatchOptions};
use call_reply::{CallReply, PendingCallReply, call_response};
use call_status::{list_children, show_call};
use server_core::body::{CallRequestBody, QueryParams};
use server_core::call_history::CallStatusReply;
use server_core::child_calls::ChildCallsReply;
use server_core::error::ApiError;
use server_core::pending_call;
use server_core::request_restrictions;
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "post",
            "/v1/calls",
            "Call a tool, or all tools in a model's message",
            post(create_call),
        )
        .with_query(CREATE_CALL_QUERY)
        .with_body::<CreateCallSchema>()
        .with_reply::<CreateCallReplySchema>(),
        ApiRoute::new(
            "post",
            "/v1/calls/{id}/resume",
            "Wait for a pending call and return its result",
            post(resume_call),
        )
        .with_query(RESUME_CALL_QUERY)
        .with_reply::<CreateCallReplySchema>(),
        ApiRoute::new("get", "/v1/calls/{id}", "Get the state of a call", get(show_call))
            .with_reply::<CallStatusReply>(),
        ApiRoute::new(
            "get",
            "/v1/calls/{id}/children",
            "List the calls that a call or a program made",
            get(list_children),
        )
        .with_reply::<ChildCallsReply>(),
    ]
}

const CREATE_CALL_QUERY: &[QueryParam] = &[
    QueryParam {
        name: "format",
        description: "provider format, as for /v1/tools: the body is a response of that provider's model, \
               the result the messages for it; native by default",
        schema_type: "string",
    },
    QueryParam {
        name: "envelope",
        description: "tool_output (or to_machine): the result as ToolOutput of the research registry; \
               to_human: its text for people; not with a format",
        schema_type: "string",
    },
    QueryParam {
        name: "search",
        description: "toolkeep, with a format: the searches of the model are answered too, as for a list with \
               `search=toolkeep`",
        schema_type: "string",
    },
    QueryParam {
        name: "timeout_ms",
        description: "with a format: timeout in milliseconds of each call; it can only shorten the tool's \
               own timeout",
        schema_type: "integer",
    },
    QueryParam {
        name: "wait",
        description: "time to wait for a call that needs approval, such as 30s; returns its result, or \
               202 with its ID; with a format, the time for all such calls of the message together",
        schema_type: "string",
    },
];

const RESUME_CALL_QUERY: &[QueryParam] = &[
    QueryParam {
        name: "wait",
        description: "time to wait for a pending call, such as 30s; default 0",
        schema_type: "string",
    },
    QueryParam {
        name: "format",
        description: "provider format, as for /v1/tools: returns the message for that provider, with the \
               provider's ID of the call; native by default",
        schema_type: "string",
    },
];

/// The query parameters of `POST /v1/calls`; unknown ones are ignored.
#[derive(Debug, Deserialize)]
struct CreateCallQuery {
    format: Option<String>,
    search: Option<String>,
    timeout_ms: Option<u64>,
    wait: Option<String>,
    envelope: Option<String>,
}

/// The query parameters for resuming a pending call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallWaitQuery {
    wait: Option<String>,
    format: Option<String>,
}

/// One call, or a model's message.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it says what there is; which of the two it is, the query tells")]
enum CreateCallSchema {
    SingleCall(CreateCallBody),
    /// With `format`: the provider's response, its message, or the list of tool calls in it.
    ModelMessage(serde_json::Value),
}

/// The result of a call, or of all calls of a message.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it says what there is")]
enum CreateCallReplySchema {
    SingleCall(CallReply),
    /// Status 202: the call needs approval.
    PendingApproval(PendingCallReply),
    /// The result with `envelope=tool_output`.
    Enveloped(serde_json::Map<String, serde_json::Value>),
    Batch(batch_calls::BatchReply),
}

/// A tool call. The caller is identified by the credential only.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateCallBody {
    /// Name or alias of the tool.
    tool: String,
    /// Arguments of the call as an object; `{}` if absent.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[serde(default)]
    #[expect(dead_code, reason = "it was taken out of the body before, as it stands")]
    arguments: Option<Json>,
    /// Timeout in milliseconds. It can only shorten the tool's own timeout.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// Refuse tools with side effects.
    #[serde(default)]
    read_only: bool,
    /// Refuse tools that reach the network.
    #[serde(default)]
    no_web: bool,
    /// Task type: `math`, `thinking`, `instruction_precision` or one of the policy's.
    #[serde(default)]
    task_type: Option<String>,
}

impl CreateCallBody {
    fn decode(large: &CallRequestBody) -> Result<(Self, RequestArguments), ApiError> {
        let (body, arguments, limits) = large.decode()?;
        Ok((body, RequestArguments::Validated(arguments, limits)))
    }
}

async fn create_call(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(query): QueryParams<CreateCallQuery>,
    large: CallRequestBody,
) -> Result<Response, ApiError> {
    let timeout = query.timeout_ms.map(std::time::Duration::from_millis);
    let wait = query.wait.as_deref().map(pending_call::parse_wait).transpose()?;
    let envelope = query.envelope.as_deref().map(OutputEnvelope::parse).transpose()?;
    match query.format.as_deref() {
        None | Some("native") if query.search.is_some() => {
            Err(ApiError::new(ErrorCode::InvalidRequest, "`search` needs a `format`"))
        }
        None | Some("native") => {
            execute_one(&state, &principal, CreateCallBody::decode(&large)?, (wait, envelope)).await
        }
        Some(_) if envelope.is_some() => Err(ApiError::new(
            ErrorCode::InvalidRequest,
            "`envelope` cannot be combined with \
                `format`",
        )),
        Some(format) => {
            let search = query.search.as_deref();
            let options = BatchOptions { format, search, timeout, wait };
            batch_calls::execute_batch(&state, &principal, options, &large.body.0).await
        }
    }
}

/// The two output formats of the research registry.
#[derive(Debug, Clone, Copy)]
enum OutputEnvelope {
    /// The registry's result fields.
    Machine,
    /// A readable text for people.
    Human,
}

impl OutputEnvelope {
    fn parse(word: &str) -> Result<Self, ApiError> {
        match word {
            "tool_output" | "to_machine" => Ok(Self::Machine),
            "to_human" => Ok(Self::Human),
            _ => {
                let word = truncate_and_escape_debug(word, 64);
                let message = format!("unknown envelope `{word}`; use tool_output or to_human");
                Err(ApiError::new(ErrorCode::InvalidRequest, message))
            }
        }
    }

    fn encode_output(self, output: &ToolOutput) -> Response {
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

async fn execute_one(
    state: &ServerState,
    principal: &Principal,
    (body, args): (CreateCallBody, RequestArguments),
    (wait, envelope): (Option<std::time::Duration>, Option<OutputEnvelope>),
) -> Result<Response, ApiError> {
    let CreateCallBody { read_only, no_web, task_type, .. } = &body;
    let task_type = task_type.clone();
    let narrowing = RequestRestrictions {
        is_read_only: *read_only,
        denies_network: *no_web,
        task_type,
        ..RequestRestrictions::default()
    };
    let principal = &request_restrictions::apply_restrictions(state, principal, &narrowing)?;
    let view = state.components.gateway.view_for(principal, CallerType::Direct);
    let tool = state.tool_lists.resolve_tool_name(&view, &body.tool);
    let mut request = CallRequest::new(tool.clone(), args.clone(), Interface::Rest);
    request.timeout = body.timeout_ms.map(std::time::Duration::from_millis);
    let mut answer = state.components.gateway.call_tool(principal, request).await;
    state.metrics.observe_call(Interface::Rest, &answer);
    if let (Some(wait), Ok(ExecutionState::Pending(PendingReason::Approval(_)))) =
        (wait, &answer.result)
    {
        answer = wait_for_result(state, principal, (answer.call_id, wait)).await?;
    }
    if let Some(envelope) = envelope
        && let Some((entry, _)) = view.find_tool(&tool)
        && let RequestArguments::Validated(args, _) = &args
        && let Some(output) = ToolOutput::from_response(entry, &args.to_value(), &answer)
    {
        return Ok(envelope.encode_output(&output));
    }
    call_response(answer, Some(tool))
}

async fn wait_for_result(
    state: &ServerState,
    principal: &Principal,
    (call, wait): (CallId, std::time::Duration),
) -> Result<CallResponse, ApiError> {
    let wait = state.streams.allowed_wait(principal, wait);
    let settled = state.components.gateway.wait_for_result(principal, call, wait.duration).await;
    settled.map_err(|failure| ApiError::from_failure(call, failure))
}

/// Waits for the result of a pending call. An approved call that nobody runs is executed for this
/// caller.
async fn resume_call(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    QueryParams(query): QueryParams<CallWaitQuery>,
) -> Result<Response, ApiError> {
    let call = parse_call_id(&id, "call")?;
    let wait = query.wait.as_deref().map(pending_call::parse_wait).transpose()?.unwrap_or_default();
    let settled = wait_for_result(&state, &principal, (call, wait));
    match query.format.as_deref() {
        None | Some("native") => call_response(settled.await?, None),
        Some(format) => {
            Box::pin(batch_calls::resume_batch_call(&state, &principal, (format, call), settled))
                .await
        }
    }
}

/// Parses the ID of a call in a path; `kind` is the word for what the ID names.
///
/// # Errors
/// [`ErrorCode::NotFound`], as for an ID that names nothing.
pub(crate) fn parse_call_id(id: &str, kind: &str) -> Result<CallId, ApiError> {
    id.parse::<Uuid>().map(CallId).map_err(|_| unknown_id(id, kind))
}

fn unknown_id(id: &str, kind: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("no {kind} `{}`", id.escape_debug()))
}
