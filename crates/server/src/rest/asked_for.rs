//! All the calls that a model asks for in one message, and the messages that answer it.
//!
//! Every call goes through the pipeline by itself: what is wrong with one is told to the model in that
//! call's own answer, and the others run. Their order is the model's; only calls that change nothing run
//! beside each other.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use formats::{Answered, Format, RequestedCall, UnknownFormat};
use futures_util::future::join_all;
use gateway::{Request, View};
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use tool::outcome::{Answer, Failure, Status};
use tool::{Body, CallId, CallerType, Code, Interface, Json, Limits, Outcome, Step, Wait};

use crate::error::ApiError;
use crate::held;
use crate::lists::Names;
use crate::state::Doors;

/// Calls of one message that run at the same time.
const AT_ONCE: usize = 8;

/// What came of a model's message.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Messages {
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

/// Runs them.
pub(super) async fn run(
    doors: &Doors,
    principal: &Principal,
    (word, timeout): (&str, Option<Duration>),
    message: &Json,
) -> Result<Response, ApiError> {
    let bad = |told: String| ApiError::new(Code::InvalidRequest, told);
    let format: Format = word.parse().map_err(|error: UnknownFormat| bad(error.to_string()))?;
    let calls = formats::read_calls(format, message).map_err(|error| {
        bad(format!("the body, as {format}: {error}"))
            .fix("send what the model answered, as its provider wrote it")
    })?;
    let view = doors.parts.gateway.view(principal, CallerType::Direct);
    let message = Message { doors, principal, view, format, timeout };
    let (answered, done): (Vec<_>, Vec<_>) = message.all(calls).await.into_iter().unzip();
    let messages = formats::write_results(format, &answered);
    let body = Json::of(&Messages { messages, calls: done });
    Ok(([(CONTENT_TYPE, "application/json")], body.bytes().clone()).into_response())
}

/// A model's message, and who sent it.
struct Message<'a> {
    doors: &'a Doors,
    principal: &'a Principal,
    view: Arc<View>,
    format: Format,
    timeout: Option<Duration>,
}

impl Message<'_> {
    /// Runs the calls in their order; neighbours that change nothing run at the same time.
    async fn all(&self, calls: Vec<RequestedCall>) -> Vec<(Answered, Done)> {
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

    /// Where the caller has no room for so many at once, the rest has its turn afterwards.
    async fn group(&self, group: Vec<RequestedCall>) -> Vec<(Answered, Done)> {
        let together = group.len() > 1;
        let mut all = join_all(group.iter().map(|call| self.one(call))).await;
        for (call, came) in group.iter().zip(&mut all) {
            if together && came.1.code == Some(Code::Busy) {
                *came = self.one(call).await;
            }
        }
        all
    }

    /// Whether a call is known to change nothing. What the caller has not got is no such call.
    fn reads(&self, call: &RequestedCall) -> bool {
        let tool = self.doors.lists.native(&self.view, &call.name);
        self.view.find(&tool).is_some_and(|(entry, _)| !entry.tool.traits.effects.any())
    }

    async fn one(&self, call: &RequestedCall) -> (Answered, Done) {
        let Self { doors, principal, view, .. } = self;
        let tool = doors.lists.native(view, &call.name);
        let args = self.args(&tool, call);
        let mut request = Request::new(tool.clone(), args.clone(), Interface::Rest);
        request.timeout = self.timeout;
        let answer = doors.parts.gateway.call(principal, request).await;
        doors.metrics.ended(Interface::Rest, &answer);
        let Answer { call: call_id, status, result, elapsed_ms } = answer;
        let (outcome, code) = match result {
            Ok(Step::Wait(Wait::Approval(approval))) => {
                let args = Json::check(args, Limits::ARGUMENTS).unwrap_or_else(|_| Json::empty());
                let pending = held::pending(&tool, &args, (call_id, &approval));
                (Outcome::value(pending), None)
            }
            result => told(result),
        };
        let (is_error, id) = (outcome.is_error, call.id.clone());
        let done = Done { call_id, id, tool, status, code, is_error, elapsed_ms };
        (Answered { id: call.id.clone(), name: call.name.clone(), outcome }, done)
    }

    /// The arguments as they were written; under the tool's own names, where its format shows others.
    /// What cannot be read is refused by the pipeline, which leaves its record.
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

/// What a model is told; of a failure, why and what to do.
fn told(result: Result<Step, Failure>) -> (Outcome, Option<Code>) {
    let (code, message) = match result {
        Ok(Step::Done(outcome)) => return (outcome, None),
        // The request declared no client that could be asked, so an upstream that asks is at fault.
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
