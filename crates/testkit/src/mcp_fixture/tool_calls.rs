//! The tool implementations of the fixture.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::caller_link::CallerLink;
use super::fixture_state::{FixtureChange, FixtureState};
use super::input_rounds::{self, CallInput, InputRound};
use super::json_rpc::{FixtureRequest, RpcError};
use super::listed_content;
use super::tasks;

static TOOL_RESULTS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("answers.json")).expect("our own JSON"));

/// Time between two steps of a slow tool.
const STEP_INTERVAL: Duration = Duration::from_millis(50);

/// Duration of a slow call.
const SLOW_CALL: Duration = Duration::from_secs(1);

/// The outcome of a call.
#[derive(Debug)]
pub(super) enum CallOutcome {
    Done(Value),
    /// It needs answers to `inputRequests` and `requestState` back.
    NeedsInput(Value, Option<String>),
    /// It continues as a task with these members.
    Task(Value),
}

/// Parses the input of a tool call or a prompt request.
///
/// # Errors
/// Returns an error for an invalid request.
pub(super) fn parse_call(
    request: &FixtureRequest,
    capabilities: &Value,
) -> Result<CallInput, RpcError> {
    let object = |key: &str| match request.params.get(key) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object.clone())),
        Some(_) => Err(RpcError::invalid_params(format!("`{key}` is no object"))),
    };
    Ok(CallInput {
        name: request.text_param("name")?.to_owned(),
        arguments: object("arguments")?.unwrap_or_default(),
        responses: object("inputResponses")?,
        request_state: request
            .params
            .get("requestState")
            .and_then(Value::as_str)
            .map(str::to_owned),
        capabilities: capabilities.clone(),
    })
}

/// Whether the tool sends notifications before its result.
pub(super) fn sends_notifications(name: &str) -> bool {
    matches!(
        name,
        "test_tool_with_logging"
            | "test_tool_with_progress"
            | "test_streaming_elicitation"
            | "test_logging_tool"
            | "test_wait"
    )
}

/// Runs a tool until it ends or needs input.
///
/// # Errors
/// Returns an error if the tool does not exist or the call cannot be answered.
pub(super) async fn call_tool(
    fixture: &FixtureState,
    input: &CallInput,
    link: &CallerLink,
) -> Result<CallOutcome, RpcError> {
    let name = input.name.as_str();
    if listed_content::find_tool(fixture, name).is_none() {
        return Err(RpcError::invalid_params(format!("there is no tool `{name}`")));
    }
    if let Some(answer) = TOOL_RESULTS.get(name) {
        return Ok(CallOutcome::Done(answer.clone()));
    }
    if let Some(outcome) = tasks::start_call(fixture, input).await? {
        return Ok(outcome);
    }
    if name == "test_streaming_elicitation" {
        link.report_progress(0.5, 1.0, "about to ask").await;
    }
    match input_rounds::next_round(fixture, input)? {
        InputRound::Ask { requests, state } => return Ok(CallOutcome::NeedsInput(requests, state)),
        InputRound::Complete(got) if name == "test_tool_with_task" => {
            if link.session.is_none() {
                return tasks::begin_answered(fixture, input, &got);
            }
            // Before 2026-07-28 the client decides what is a task; this call is not one, and is
            // slow.
            sleep(SLOW_CALL).await;
            return Ok(CallOutcome::Done(received_result(name, &got)));
        }
        InputRound::Complete(got) => return Ok(CallOutcome::Done(received_result(name, &got))),
        InputRound::None => {}
    }
    plain_result(fixture, input, link).await.map(CallOutcome::Done)
}

/// Gets a prompt, which may need input too.
///
/// # Errors
/// Returns an error if the prompt does not exist or an argument is missing.
pub(super) fn get_prompt(
    fixture: &FixtureState,
    request: &FixtureRequest,
    input: &CallInput,
) -> Result<CallOutcome, RpcError> {
    Ok(match input_rounds::next_round(fixture, input)? {
        InputRound::Ask { requests, state } => CallOutcome::NeedsInput(requests, state),
        InputRound::Complete(got) => {
            let context = got.get("user_context").map(|it| it["content"]["context"].to_string());
            let text = json!({ "type": "text", "text": context.unwrap_or_default() });
            CallOutcome::Done(json!({ "messages": [{ "role": "user", "content": text }] }))
        }
        InputRound::None => CallOutcome::Done(listed_content::render_prompt(fixture, request)?),
    })
}

pub(super) fn text_result(text: impl Into<String>) -> Value {
    json!({ "content": [{ "type": "text", "text": text.into() }] })
}

pub(super) fn error_result(message: impl Into<String>) -> Value {
    let mut answer = text_result(message);
    answer["isError"] = json!(true);
    answer
}

/// The tool result for received answers.
fn received_result(name: &str, got: &Map<String, Value>) -> Value {
    let all = Value::Object(got.clone());
    match name {
        "test_sampling" => {
            text_result(format!("LLM response: {}", all["model"]["content"]["text"]))
        }
        "test_elicitation" => text_result(format!("User response: {}", all["person"])),
        "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
            let (action, content) = (&all["person"]["action"], &all["person"]["content"]);
            text_result(format!(
                "Elicitation completed: action={}, content={content}",
                action.as_str().unwrap_or_default()
            ))
        }
        "test_input_required_result_request_state" => text_result(format!("state-ok: {all}")),
        _ => text_result(format!("received: {all}")),
    }
}

async fn plain_result(
    fixture: &FixtureState,
    given: &CallInput,
    link: &CallerLink,
) -> Result<Value, RpcError> {
    let number = |key: &str| given.arguments.get(key).and_then(Value::as_f64);
    Ok(match given.name.as_str() {
        "test_tool_with_logging" => {
            for (at, line) in ["started", "processing", "completed"].into_iter().enumerate() {
                if at > 0 {
                    sleep(STEP_INTERVAL).await;
                }
                link.log_info(&format!("Tool execution {line}")).await;
            }
            text_result("Tool with logging executed successfully")
        }
        "test_tool_with_progress" => {
            for step in [0.0, 50.0, 100.0] {
                link.report_progress(step, 100.0, &format!("Completed step {step} of 100")).await;
                sleep(STEP_INTERVAL).await;
            }
            text_result("Tool with progress executed successfully")
        }
        "test_logging_tool" => {
            link.log_info("Diagnostic log").await;
            text_result("Logging evaluated")
        }
        "test_trigger_tool_change" => {
            toggle_entries(fixture, FixtureChange::Tools, &fixture.more_tools)
        }
        "test_trigger_prompt_change" => {
            toggle_entries(fixture, FixtureChange::Prompts, &fixture.more_prompts)
        }
        "test_update_watched_resource" => {
            fixture.watched_changes.fetch_add(1, Ordering::SeqCst);
            fixture.broadcast_change(FixtureChange::Resource("test://watched-resource".to_owned()));
            text_result("Changed")
        }
        "test_structured_content" => {
            let sum = number("a").zip(number("b")).map(|(a, b)| a + b);
            let sum = sum.ok_or_else(|| RpcError::invalid_params("`a` and `b` are numbers"))?;
            structured_result(&json!({ "sum": sum }))
        }
        "test_cancelled_calls" => structured_result(
            &json!({ "cancelled": fixture.cancelled_calls.load(Ordering::SeqCst) }),
        ),
        "test_large_result" => {
            let bytes = given.arguments.get("bytes").and_then(Value::as_u64).unwrap_or(0);
            text_result("x".repeat(usize::try_from(bytes.min(4 << 20)).unwrap_or(0)))
        }
        "test_wait" => {
            let seconds = number("seconds").unwrap_or(0.0).clamp(0.0, 60.0);
            wait_cancellable(fixture, link, Duration::from_secs_f64(seconds)).await
        }
        _ => text_result(Value::Object(given.arguments.clone()).to_string()),
    })
}

fn structured_result(data: &Value) -> Value {
    let mut answer = text_result(data.to_string());
    answer["structuredContent"] = data.clone();
    answer
}

fn toggle_entries(fixture: &FixtureState, change: FixtureChange, more: &AtomicBool) -> Value {
    more.fetch_xor(true, Ordering::SeqCst);
    fixture.broadcast_change(change);
    text_result("Mutation triggered")
}

/// Counts a call that is dropped before it ends.
struct CancelledCall<'a>(Option<&'a AtomicU64>);

impl Drop for CancelledCall<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn wait_cancellable(fixture: &FixtureState, link: &CallerLink, long: Duration) -> Value {
    let mut unfinished = CancelledCall(Some(&fixture.cancelled_calls));
    let start = Instant::now();
    while start.elapsed() < long {
        let done = start.elapsed().as_secs_f64();
        link.report_progress(done, long.as_secs_f64(), "waiting").await;
        sleep(Duration::from_millis(100).min(long.saturating_sub(start.elapsed()))).await;
    }
    unfinished.0 = None;
    text_result(format!("waited {} s", long.as_secs_f64()))
}
