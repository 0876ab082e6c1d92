//! All the calls that a model asks for in one message, and the messages that answer it.
//!
//! Every call goes through the pipeline by itself and in order: what is wrong with one is told to the
//! model in that call's own answer, and the others run.

use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use formats::{Answered, Format, RequestedCall, UnknownFormat};
use gateway::{Request, View};
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use tool::outcome::{Answer, Failure, Status};
use tool::{Body, CallId, CallerType, Code, Json, Limits, Outcome, Step, Wait};

use crate::error::ApiError;
use crate::held;
use crate::lists::Names;
use crate::state::Doors;

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
    let (mut answered, mut done) = (Vec::with_capacity(calls.len()), Vec::new());
    for call in calls {
        let tool = doors.lists.native(&view, &call.name);
        let args = args(doors, &view, (format, &tool), &call);
        let mut request = Request::new(tool.clone(), args.clone(), "rest");
        request.timeout = timeout;
        let answer = doors.parts.gateway.call(principal, request).await;
        doors.metrics.ended("rest", &answer);
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
        done.push(Done { call_id, id, tool, status, code, is_error, elapsed_ms });
        answered.push(Answered { id: call.id, name: call.name, outcome });
    }
    let messages = formats::write_results(format, &answered);
    let body = Json::of(&Messages { messages, calls: done });
    Ok(([(CONTENT_TYPE, "application/json")], body.bytes().clone()).into_response())
}

/// The arguments as they were written; under the tool's own names, where its format shows others. What
/// cannot be read is refused by the pipeline, which leaves its record.
fn args(
    doors: &Doors,
    view: &View,
    (format, tool): (Format, &str),
    call: &RequestedCall,
) -> bytes::Bytes {
    let rendered = doors.lists.rendered(view.catalog(), format, Names::Safe);
    let back = rendered.tool(tool).map(|tool| &tool.back).filter(|back| !back.is_empty());
    match (back, call.args()) {
        (Some(back), Ok(args)) => back.restored(args.raw()).bytes().clone(),
        _ => call.text.clone(),
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
