//! Execution of all tool calls in one model message, and the provider messages that answer them.
//!
//! Each call passes through the pipeline independently. If one fails, its own result reports the
//! error and the others still run. The model's order is kept; only read-only calls run in parallel.
//! Calls that need an approval do not block the others.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use formats::{Answered, Format, RequestedCall, UnknownFormat};
use futures_util::future::join_all;
use gateway::{ModelCall, PendingRequest, Request, View};
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use tool::outcome::{Answer, Failure, Status};
use tool::{Body, CallId, CallerType, Code, Interface, Json, Limits, Outcome, Step, Wait};

use server_core::error::ApiError;
use server_core::held;
use server_core::lists::Names;
use server_core::state::Doors;

/// Maximum number of calls of one message that run in parallel.
const AT_ONCE: usize = 8;

/// What came of a model's message.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Messages {
    /// To be added to the conversation, after the model's own message: an answer to every call.
    #[schemars(with = "Vec<serde_json::Value>")]
    messages: Json,
    /// What came of each call, in order.
    calls: Vec<Done>,
}

/// One call of a message.
#[derive(Debug, Serialize, JsonSchema)]
struct Done {
    /// Names the call in the record.
    #[schemars(with = "String")]
    call_id: CallId,
    /// The provider's id of it.
    id: Option<String>,
    /// The tool's name.
    tool: String,
    /// `succeeded`, `failed`, `refused`, or `waiting` for an approval.
    #[schemars(with = "String")]
    status: Status,
    /// Why it was refused, or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    code: Option<Code>,
    /// Whether the model is told of a failure.
    is_error: bool,
    /// Milliseconds.
    elapsed_ms: u64,
}

/// Options for the execution of a model message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageOptions<'a> {
    /// The name of the provider format.
    pub(crate) format: &'a str,
    /// The caller's own timeout for each call.
    pub(crate) timeout: Option<Duration>,
    /// The maximum time to wait for all pending calls together.
    pub(crate) wait: Option<Duration>,
}

/// Executes all calls of a message, and then waits for those that need an approval.
pub(crate) async fn run(
    doors: &Doors,
    principal: &Principal,
    options: MessageOptions<'_>,
    message: &Json,
) -> Result<Response, ApiError> {
    let format = parse_format(options.format)?;
    let calls = formats::read_calls(format, message).map_err(|error| {
        ApiError::new(Code::InvalidRequest, format!("the body, as {format}: {error}"))
            .fix("send what the model answered, as its provider wrote it")
    })?;
    let view = doors.parts.gateway.view(principal, CallerType::Direct);
    let message = Message { doors, principal, view, format, timeout: options.timeout };
    let mut all = message.all(calls).await;
    if let Some(wait) = options.wait {
        message.settle(&mut all, wait).await;
    }
    Ok(messages(format, all).into_response())
}

/// Resumes a pending call and returns the provider's message for its result or its pending state.
pub(crate) async fn resume(
    doors: &Doors,
    principal: &Principal,
    (format, call): (&str, CallId),
    answer: impl Future<Output = Result<Answer, ApiError>>,
) -> Result<Response, ApiError> {
    let format = parse_format(format)?;
    let answer = answer.await?;
    let gateway = &doors.parts.gateway;
    let pending = gateway.pending_request(principal, call).await;
    let PendingRequest { tool, args, model_call } =
        pending.map_err(|failure| ApiError::of(call, failure))?;
    let view = gateway.view(principal, CallerType::Direct);
    let listed = view.find_of(tool.source.as_str(), tool.name.as_str());
    let name = listed.map_or_else(|| tool.name.to_string(), |(entry, _)| entry.name.to_string());
    // A call from outside a model message gets the name that a list for the model would give it.
    let model_call = model_call.unwrap_or_else(|| {
        let rendered = doors.lists.rendered(&view, format, Names::Safe);
        let alias = rendered.names.alias(&name).unwrap_or(&name).to_owned();
        ModelCall { id: Some(call.to_string()), name: alias }
    });
    let status = if is_pending(&answer) { StatusCode::ACCEPTED } else { StatusCode::OK };
    let one = Called { model_call, tool: name, args: args.bytes().clone(), answer };
    Ok((status, messages(format, vec![one])).into_response())
}

fn parse_format(word: &str) -> Result<Format, ApiError> {
    word.parse()
        .map_err(|error: UnknownFormat| ApiError::new(Code::InvalidRequest, error.to_string()))
}

/// Builds the provider messages with the results of the calls.
fn messages(format: Format, all: Vec<Called>) -> impl IntoResponse {
    let (answered, calls): (Vec<_>, Vec<_>) = all.into_iter().map(Called::written).unzip();
    let messages = formats::write_results(format, &answered);
    let body = Json::of(&Messages { messages, calls });
    ([(CONTENT_TYPE, "application/json")], body.bytes().clone())
}

/// One call of a message with its response.
struct Called {
    model_call: ModelCall,
    /// The native name of the tool.
    tool: String,
    args: Bytes,
    answer: Answer,
}

/// Whether a call is waiting for an approval, or was approved and is still running.
fn is_pending(answer: &Answer) -> bool {
    matches!(answer.result, Ok(Step::Wait(Wait::Approval(_))))
}

impl Called {
    /// Splits the call into the result for the model and the report for the caller.
    fn written(self) -> (Answered, Done) {
        let Self { model_call: ModelCall { id, name }, tool, args, answer } = self;
        let Answer { call: call_id, status, result, elapsed_ms } = answer;
        let (outcome, code) = match result {
            Ok(Step::Wait(Wait::Approval(approval))) => {
                let args = Json::check(args, Limits::ARGUMENTS).unwrap_or_else(|_| Json::empty());
                let pending = held::pending(&tool, &args, (call_id, &approval));
                (Outcome::value(pending), None)
            }
            result => told(result),
        };
        let is_error = outcome.is_error;
        let done = Done { call_id, id: id.clone(), tool, status, code, is_error, elapsed_ms };
        (Answered { id, name, outcome }, done)
    }
}

/// The execution of one model message for its caller.
struct Message<'a> {
    doors: &'a Doors,
    principal: &'a Principal,
    view: Arc<View>,
    format: Format,
    timeout: Option<Duration>,
}

impl Message<'_> {
    /// Executes the calls in order; adjacent read-only calls run in parallel.
    async fn all(&self, calls: Vec<RequestedCall>) -> Vec<Called> {
        let mut all = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter().peekable();
        while let Some(first) = calls.next() {
            let mut group = vec![first];
            while group.len() < AT_ONCE
                && group.last().is_some_and(|last| self.reads(last))
                && let Some(next) = calls.next_if(|next| self.reads(next))
            {
                group.push(next);
            }
            all.extend(self.group(group).await);
        }
        all
    }

    /// Executes a group in parallel. Calls rejected because the caller has too many are repeated
    /// one after the other.
    async fn group(&self, group: Vec<RequestedCall>) -> Vec<Called> {
        let together = group.len() > 1;
        let mut all = join_all(group.iter().map(|call| self.one(call))).await;
        for (call, came) in group.iter().zip(&mut all) {
            let is_busy = came.answer.result.as_ref().is_err_and(|it| it.code == Code::Busy);
            if together && is_busy {
                *came = self.one(call).await;
            }
        }
        all
    }

    /// Whether the tool of a call declares no side effects; false for tools that the caller cannot
    /// see.
    fn reads(&self, call: &RequestedCall) -> bool {
        let tool = self.doors.lists.native(&self.view, &call.name);
        self.view.find(&tool).is_some_and(|(entry, _)| !entry.tool.traits.effects.any())
    }

    async fn one(&self, call: &RequestedCall) -> Called {
        let Self { doors, principal, view, .. } = self;
        let tool = doors.lists.native(view, &call.name);
        let args = self.args(&tool, call);
        let mut request = Request::new(tool.clone(), args.clone(), Interface::Rest);
        request.timeout = self.timeout;
        let model_call = ModelCall { id: call.id.clone(), name: call.name.clone() };
        request.model_call = Some(model_call.clone());
        let answer = doors.parts.gateway.call(principal, request).await;
        doors.metrics.ended(Interface::Rest, &answer);
        Called { model_call, tool, args, answer }
    }

    /// Waits for all pending calls in parallel: the request has one timeout and counts once as
    /// waiting. A call whose state cannot be read stays pending.
    async fn settle(&self, all: &mut [Called], wait: Duration) {
        let Self { doors, principal, .. } = self;
        let pending: Vec<_> = all.iter_mut().filter(|it| is_pending(&it.answer)).collect();
        if pending.is_empty() {
            return;
        }
        let wait = doors.streams.allowed_wait(principal, wait);
        join_all(pending.into_iter().map(async |called| {
            let settled = doors.parts.gateway.settled(principal, called.answer.call, wait.time);
            match settled.await {
                Ok(answer) => called.answer = answer,
                Err(error) => {
                    tracing::warn!(call = %called.answer.call, "a pending call is not read: {}", error.message);
                }
            }
        }))
        .await;
    }

    /// The arguments as written by the model; with the tool's native names if the format renames
    /// members. Unreadable arguments are rejected by the pipeline, which records them.
    fn args(&self, tool: &str, call: &RequestedCall) -> Bytes {
        let rendered = self.doors.lists.rendered(&self.view, self.format, Names::Safe);
        let written = rendered.tool(tool);
        let back = written.as_ref().map(|tool| &tool.back).filter(|back| !back.is_empty());
        let limits = self.view.find(tool).map(|(entry, _)| entry.tool.traits.limits());
        match (back, call.args_within(limits.unwrap_or(Limits::ARGUMENTS))) {
            (Some(back), Ok(args)) => back.restored(args.raw()).bytes().clone(),
            _ => call.text.clone(),
        }
    }
}

/// Converts a result to the outcome for the model; a failure states the cause and what to do.
fn told(result: Result<Step, Failure>) -> (Outcome, Option<Code>) {
    let (code, message) = match result {
        Ok(Step::Done(outcome)) => return (outcome, None),
        // The request declared no client capabilities, so an upstream that requests input is at
        // fault.
        Ok(Step::Wait(_)) => {
            let told = "the tool asks for input, which cannot be given through this door";
            (Code::UpstreamFailed, told.to_owned())
        }
        Err(failure) => (failure.code, failure.message),
    };
    let fix = match code {
        Code::InvalidArguments => {
            "; call it again with arguments that fit its schema, as one JSON object"
        }
        Code::UnknownTool => "; call a tool of the list",
        _ => "",
    };
    let text = Json::of(&format!("{message}{fix}"));
    (Outcome { body: Body::Value(text), is_error: true }, Some(code))
}
