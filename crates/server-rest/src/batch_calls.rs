//! Execution of all tool calls in one model message, and the provider messages that answer them.
//!
//! Each call passes through the pipeline independently. If one fails, its own result reports the
//! error and the others still run. The model's order is kept; only read-only calls run in parallel.
//! Calls that need an approval do not block the others.

mod search_answers;

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use formats::{
    ModelAnswer, ModelRequest, ParseCallsError, ProviderFormat, ToolCallRequest, ToolCallResult,
    UnknownFormatError,
};
use futures_util::future::join_all;
use gateway::{CallRequest, CatalogView, ModelCall, PendingRequest};
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use tool::call_outcome::{CallFailure, CallResponse, CallStatus};
use tool::{
    CallId, CallerType, ErrorCode, ExecutionState, Interface, Json, JsonLimits, Outcome,
    OutcomeBody, PendingReason,
};

use search_answers::{BatchAnswer, SearchReport, SplitRequests};
use server_core::error::ApiError;
use server_core::pending_call::{self, PendingCall};
use server_core::server_state::ServerState;
use server_core::tool_lists::NameStyle;

/// Maximum number of calls of one message that run in parallel.
const MAX_PARALLEL_CALLS: usize = 8;

/// The results of the tool calls in a model's message.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BatchReply {
    /// Messages to append to the conversation after the model's message, with a result for each
    /// call.
    #[schemars(with = "Vec<serde_json::Value>")]
    messages: Json,
    /// Results of the calls, in order.
    calls: Vec<BatchCallReport>,
    /// Answered searches, in order; only with `search=toolkeep`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    searches: Vec<SearchReport>,
}

/// One call of a model's message.
#[derive(Debug, Serialize, JsonSchema)]
struct BatchCallReport {
    /// ID of the call in the record.
    #[schemars(with = "String")]
    call_id: CallId,
    /// The provider's ID of the call.
    #[serde(rename = "id")]
    provider_call_id: Option<String>,
    /// Name of the tool.
    tool: String,
    /// Status: `succeeded`, `failed`, `refused`, or `waiting` for an approval.
    #[schemars(with = "String")]
    status: CallStatus,
    /// Error code of a refused or failed call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    code: Option<ErrorCode>,
    /// Whether the model receives an error.
    is_error: bool,
    /// Duration in milliseconds.
    elapsed_ms: u64,
}

/// Options for the execution of a model message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchOptions<'a> {
    /// The name of the provider format.
    pub(crate) format: &'a str,
    /// Who answers the searches of the model; ignored if `None`.
    pub(crate) search: Option<&'a str>,
    /// The caller's own timeout for each call.
    pub(crate) timeout: Option<Duration>,
    /// The maximum time to wait for all pending calls together.
    pub(crate) wait: Option<Duration>,
}

/// Executes all calls of a message, and then waits for those that need an approval.
pub(crate) async fn execute_batch(
    state: &ServerState,
    principal: &Principal,
    options: BatchOptions<'_>,
    message: &Json,
) -> Result<Response, ApiError> {
    let format = parse_format(options.format)?;
    let parse = if search_answers::parse_search(options.search, format)? {
        formats::tool_search::parse_requests
    } else {
        parse_calls_alone
    };
    let requests = parse(format, message).map_err(|error| {
        ApiError::new(ErrorCode::InvalidRequest, format!("the body, as {format}: {error}"))
            .with_help("send the unmodified response of the model's provider")
    })?;
    let view = state.components.gateway.view_for(principal, CallerType::Direct);
    let message = BatchExecution { state, principal, view, format, timeout: options.timeout };
    let mut requests = SplitRequests::new(requests);
    let mut all = message.execute_all(std::mem::take(&mut requests.calls)).await;
    if let Some(wait) = options.wait {
        message.wait_for_pending(&mut all, wait).await;
    }
    let all = requests.answer_searches((state, principal), (&message.view, format), all).await;
    Ok(batch_response(format, all).into_response())
}

/// Parses the calls of a message; searches are left to the caller.
fn parse_calls_alone(
    format: ProviderFormat,
    message: &Json,
) -> Result<Vec<ModelRequest>, ParseCallsError> {
    let calls = formats::parse_calls(format, message)?;
    Ok(calls.into_iter().map(ModelRequest::Call).collect())
}

/// Resumes a pending call and returns the provider's message for its result or its pending state.
pub(crate) async fn resume_batch_call(
    state: &ServerState,
    principal: &Principal,
    (format, call): (&str, CallId),
    answer: impl Future<Output = Result<CallResponse, ApiError>>,
) -> Result<Response, ApiError> {
    let format = parse_format(format)?;
    let answer = answer.await?;
    let gateway = &state.components.gateway;
    let pending = gateway.pending_request_of(principal, call).await;
    let PendingRequest { tool_key: tool, arguments: args, model_call } =
        pending.map_err(|failure| ApiError::from_failure(call, failure))?;
    let view = gateway.view_for(principal, CallerType::Direct);
    let listed = view.find_in_source(tool.source.as_str(), tool.name.as_str());
    let name = listed.map_or_else(|| tool.name.to_string(), |(entry, _)| entry.name.to_string());
    // A call from outside a model message gets the name that a list for the model would give it.
    let model_call = model_call.unwrap_or_else(|| {
        let rendered = state.tool_lists.render_view(&view, format, NameStyle::Safe);
        let alias = rendered.names.alias_of(&name).unwrap_or(&name).to_owned();
        ModelCall { id: Some(call.to_string()), name: alias }
    });
    let status = if is_pending(&answer) { StatusCode::ACCEPTED } else { StatusCode::OK };
    let one = BatchCall {
        model_call,
        tool_name: name,
        arguments: args.bytes().clone(),
        response: answer,
    };
    Ok((status, batch_response(format, vec![BatchAnswer::Call(one)])).into_response())
}

fn parse_format(format: &str) -> Result<ProviderFormat, ApiError> {
    format.parse().map_err(|error: UnknownFormatError| {
        ApiError::new(ErrorCode::InvalidRequest, error.to_string())
    })
}

/// Builds the provider messages with the results of calls and searches.
fn batch_response(format: ProviderFormat, all: Vec<BatchAnswer<BatchCall>>) -> impl IntoResponse {
    let (mut calls, mut searches) = (Vec::new(), Vec::new());
    let answer = |one: BatchAnswer<BatchCall>| match one {
        BatchAnswer::Call(call) => {
            let (result, report) = call.into_result_and_report();
            calls.push(report);
            ModelAnswer::Call(result)
        }
        BatchAnswer::Search(search) => {
            let (result, report) = search_answers::split_search(search);
            searches.push(report);
            result
        }
    };
    let answers: Vec<_> = all.into_iter().map(answer).collect();
    let messages = formats::tool_search::render_answers(format, &answers);
    let body = Json::encode(&BatchReply { messages, calls, searches });
    ([(CONTENT_TYPE, "application/json")], body.bytes().clone())
}

/// One call of a message with its response.
struct BatchCall {
    model_call: ModelCall,
    /// The native name of the tool.
    tool_name: String,
    arguments: Bytes,
    response: CallResponse,
}

/// Whether a call is waiting for an approval, or was approved and is still running.
fn is_pending(answer: &CallResponse) -> bool {
    matches!(answer.result, Ok(ExecutionState::Pending(PendingReason::Approval(_))))
}

impl BatchCall {
    /// Splits the call into the result for the model and the report for the caller.
    fn into_result_and_report(self) -> (ToolCallResult, BatchCallReport) {
        let Self {
            model_call: ModelCall { id, name },
            tool_name: tool,
            arguments: args,
            response: answer,
        } = self;
        let CallResponse { call_id, status, result, elapsed_ms } = answer;
        let (outcome, code) = match result {
            Ok(ExecutionState::Pending(PendingReason::Approval(approval))) => {
                let args = Json::parse(args, JsonLimits::ARGUMENTS)
                    .unwrap_or_else(|_| Json::empty_object());
                let call = PendingCall { id: call_id, approval: &approval };
                let pending = pending_call::pending_result(&tool, &args, call);
                (Outcome::from_value(pending), None)
            }
            result => batch_outcome(result),
        };
        let is_error = outcome.is_error;
        let done = BatchCallReport {
            call_id,
            provider_call_id: id.clone(),
            tool,
            status,
            code,
            is_error,
            elapsed_ms,
        };
        (ToolCallResult { id, name, outcome }, done)
    }
}

/// The execution of one model message for its caller.
struct BatchExecution<'a> {
    state: &'a ServerState,
    principal: &'a Principal,
    view: Arc<CatalogView>,
    format: ProviderFormat,
    timeout: Option<Duration>,
}

impl BatchExecution<'_> {
    /// Executes the calls in order; adjacent read-only calls run in parallel.
    async fn execute_all(&self, calls: Vec<ToolCallRequest>) -> Vec<BatchCall> {
        let mut all = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter().peekable();
        while let Some(first) = calls.next() {
            let mut group = vec![first];
            while group.len() < MAX_PARALLEL_CALLS
                && group.last().is_some_and(|last| self.is_read_only(last))
                && let Some(next) = calls.next_if(|next| self.is_read_only(next))
            {
                group.push(next);
            }
            all.extend(self.execute_group(group).await);
        }
        all
    }

    /// Executes a group in parallel. Calls rejected because the caller has too many are repeated
    /// one after the other.
    async fn execute_group(&self, group: Vec<ToolCallRequest>) -> Vec<BatchCall> {
        let together = group.len() > 1;
        let mut all = join_all(group.iter().map(|call| self.execute_call(call))).await;
        for (call, came) in group.iter().zip(&mut all) {
            let is_busy = came.response.result.as_ref().is_err_and(|it| it.code == ErrorCode::Busy);
            if together && is_busy {
                *came = self.execute_call(call).await;
            }
        }
        all
    }

    /// Whether the tool of a call declares no side effects; false for tools that the caller cannot
    /// see.
    fn is_read_only(&self, call: &ToolCallRequest) -> bool {
        let tool = self.state.tool_lists.resolve_tool_name(&self.view, &call.name);
        self.view
            .find_tool(&tool)
            .is_some_and(|(entry, _)| !entry.tool.traits.effects.may_change_state())
    }

    async fn execute_call(&self, call: &ToolCallRequest) -> BatchCall {
        let Self { state: doors, principal, view, .. } = self;
        let tool = doors.tool_lists.resolve_tool_name(view, &call.name);
        let args = self.native_arguments(&tool, call);
        let mut request = CallRequest::new(tool.clone(), args.clone(), Interface::Rest);
        request.timeout = self.timeout;
        let model_call = ModelCall { id: call.id.clone(), name: call.name.clone() };
        request.model_call = Some(model_call.clone());
        let answer = doors.components.gateway.call_tool(principal, request).await;
        doors.metrics.observe_call(Interface::Rest, &answer);
        BatchCall { model_call, tool_name: tool, arguments: args, response: answer }
    }

    /// Waits for all pending calls in parallel: the request has one timeout and counts once as
    /// waiting. A call whose state cannot be read stays pending.
    async fn wait_for_pending(&self, all: &mut [BatchCall], wait: Duration) {
        let Self { state: doors, principal, .. } = self;
        let pending: Vec<_> = all.iter_mut().filter(|it| is_pending(&it.response)).collect();
        if pending.is_empty() {
            return;
        }
        let wait = doors.streams.allowed_wait(principal, wait);
        join_all(pending.into_iter().map(async |called| {
            let settled = doors.components.gateway.wait_for_result(
                principal,
                called.response.call_id,
                wait.duration,
            );
            match settled.await {
                Ok(answer) => called.response = answer,
                Err(error) => {
                    tracing::warn!(
                        call = %called.response.call_id,
                        "cannot read a pending call: {}",
                        error.message
                    );
                }
            }
        }))
        .await;
    }

    /// The arguments as written by the model; with the tool's native names if the format renames
    /// members. Unreadable arguments are rejected by the pipeline, which records them.
    fn native_arguments(&self, tool: &str, call: &ToolCallRequest) -> Bytes {
        let rendered = self.state.tool_lists.render_view(&self.view, self.format, NameStyle::Safe);
        let entry = self.view.find_tool(tool).map(|(entry, _)| entry);
        let written = entry.map(|entry| rendered.render_tool(entry));
        let back =
            written.as_ref().map(|tool| &tool.argument_mapping).filter(|back| !back.is_identity());
        let limits = entry.map(|entry| entry.tool.traits.argument_limits());
        match (back, call.parse_arguments_within(limits.unwrap_or(JsonLimits::ARGUMENTS))) {
            (Some(back), Ok(args)) => back.restore_arguments(args.as_json()).bytes().clone(),
            _ => call.arguments_text.clone(),
        }
    }
}

/// Converts a result to the outcome for the model; a failure states the cause and what to do.
fn batch_outcome(result: Result<ExecutionState, CallFailure>) -> (Outcome, Option<ErrorCode>) {
    let (code, message) = match result {
        Ok(ExecutionState::Completed(outcome)) => return (outcome, None),
        // The request declared no client capabilities, so an upstream that requests input is at
        // fault.
        Ok(ExecutionState::Pending(_)) => {
            (ErrorCode::UpstreamFailed, pending_call::INPUT_NOT_SUPPORTED.to_owned())
        }
        Err(failure) => (failure.code, failure.message),
    };
    let fix = match code {
        ErrorCode::InvalidArguments => {
            "; call it again with arguments that fit its schema, as one JSON object"
        }
        ErrorCode::UnknownTool => "; call a tool of the list",
        _ => "",
    };
    let text = Json::encode(&format!("{message}{fix}"));
    (Outcome { body: OutcomeBody::Value(text), is_error: true }, Some(code))
}
