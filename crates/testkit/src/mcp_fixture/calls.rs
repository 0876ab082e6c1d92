//! The tool implementations of the fixture.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::content;
use super::input::{self, Given, Round};
use super::link::Link;
use super::rpc::{Fault, Request};
use super::tasks;
use super::world::{Change, World};

static ANSWERS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("answers.json")).expect("our own JSON"));

/// Time between two steps of a slow tool.
const STEP: Duration = Duration::from_millis(50);

/// Duration of a slow call.
const LONG: Duration = Duration::from_secs(1);

/// The outcome of a call.
#[derive(Debug)]
pub(super) enum Outcome {
    Done(Value),
    /// It needs answers to `inputRequests` and `requestState` back.
    Ask(Value, Option<String>),
    /// It continues as a task with these members.
    Task(Value),
}

/// Parses the input of a tool call or a prompt request.
///
/// # Errors
/// Returns an error for an invalid request.
pub(super) fn given(request: &Request, capabilities: &Value) -> Result<Given, Fault> {
    let object = |key: &str| match request.params.get(key) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object.clone())),
        Some(_) => Err(Fault::params(format!("`{key}` is no object"))),
    };
    Ok(Given {
        name: request.text("name")?.to_owned(),
        arguments: object("arguments")?.unwrap_or_default(),
        responses: object("inputResponses")?,
        state: request.params.get("requestState").and_then(Value::as_str).map(str::to_owned),
        capabilities: capabilities.clone(),
    })
}

/// Whether the tool sends notifications before its result.
pub(super) fn speaks(name: &str) -> bool {
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
pub(super) async fn call(world: &World, given: &Given, link: &Link) -> Result<Outcome, Fault> {
    let name = given.name.as_str();
    if content::tool(world, name).is_none() {
        return Err(Fault::params(format!("there is no tool `{name}`")));
    }
    if let Some(answer) = ANSWERS.get(name) {
        return Ok(Outcome::Done(answer.clone()));
    }
    if let Some(outcome) = tasks::call(world, given).await? {
        return Ok(outcome);
    }
    if name == "test_streaming_elicitation" {
        link.progress(0.5, 1.0, "about to ask").await;
    }
    match input::next(world, given)? {
        Round::Ask { requests, state } => return Ok(Outcome::Ask(requests, state)),
        Round::Complete(got) if name == "test_tool_with_task" => {
            if link.session.is_none() {
                return tasks::begin_for(world, given, &got);
            }
            // Before 2026-07-28 the client decides what is a task; this call is not one, and is
            // slow.
            sleep(LONG).await;
            return Ok(Outcome::Done(received(name, &got)));
        }
        Round::Complete(got) => return Ok(Outcome::Done(received(name, &got))),
        Round::None => {}
    }
    plain(world, given, link).await.map(Outcome::Done)
}

/// Gets a prompt, which may need input too.
///
/// # Errors
/// Returns an error if the prompt does not exist or an argument is missing.
pub(super) fn prompt(world: &World, request: &Request, given: &Given) -> Result<Outcome, Fault> {
    Ok(match input::next(world, given)? {
        Round::Ask { requests, state } => Outcome::Ask(requests, state),
        Round::Complete(got) => {
            let context = got.get("user_context").map(|it| it["content"]["context"].to_string());
            let text = json!({ "type": "text", "text": context.unwrap_or_default() });
            Outcome::Done(json!({ "messages": [{ "role": "user", "content": text }] }))
        }
        Round::None => Outcome::Done(content::prompt(world, request)?),
    })
}

pub(super) fn text(text: impl Into<String>) -> Value {
    json!({ "content": [{ "type": "text", "text": text.into() }] })
}

pub(super) fn failure(message: impl Into<String>) -> Value {
    let mut answer = text(message);
    answer["isError"] = json!(true);
    answer
}

/// The tool result for received answers.
fn received(name: &str, got: &Map<String, Value>) -> Value {
    let all = Value::Object(got.clone());
    match name {
        "test_sampling" => text(format!("LLM response: {}", all["model"]["content"]["text"])),
        "test_elicitation" => text(format!("User response: {}", all["person"])),
        "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
            let (action, content) = (&all["person"]["action"], &all["person"]["content"]);
            text(format!(
                "Elicitation completed: action={}, content={content}",
                action.as_str().unwrap_or_default()
            ))
        }
        "test_input_required_result_request_state" => text(format!("state-ok: {all}")),
        _ => text(format!("received: {all}")),
    }
}

async fn plain(world: &World, given: &Given, link: &Link) -> Result<Value, Fault> {
    let number = |key: &str| given.arguments.get(key).and_then(Value::as_f64);
    Ok(match given.name.as_str() {
        "test_tool_with_logging" => {
            for (at, line) in ["started", "processing", "completed"].into_iter().enumerate() {
                if at > 0 {
                    sleep(STEP).await;
                }
                link.info(&format!("Tool execution {line}")).await;
            }
            text("Tool with logging executed successfully")
        }
        "test_tool_with_progress" => {
            for step in [0.0, 50.0, 100.0] {
                link.progress(step, 100.0, &format!("Completed step {step} of 100")).await;
                sleep(STEP).await;
            }
            text("Tool with progress executed successfully")
        }
        "test_logging_tool" => {
            link.info("Diagnostic log").await;
            text("Logging evaluated")
        }
        "test_trigger_tool_change" => changed(world, Change::Tools, &world.more_tools),
        "test_trigger_prompt_change" => changed(world, Change::Prompts, &world.more_prompts),
        "test_update_watched_resource" => {
            world.watched.fetch_add(1, Ordering::SeqCst);
            world.tell(Change::Resource("test://watched-resource".to_owned()));
            text("Changed")
        }
        "test_structured_content" => {
            let sum = number("a").zip(number("b")).map(|(a, b)| a + b);
            let sum = sum.ok_or_else(|| Fault::params("`a` and `b` are numbers"))?;
            structured(&json!({ "sum": sum }))
        }
        "test_cancelled_calls" => {
            structured(&json!({ "cancelled": world.cancelled.load(Ordering::SeqCst) }))
        }
        "test_large_result" => {
            let bytes = given.arguments.get("bytes").and_then(Value::as_u64).unwrap_or(0);
            text("x".repeat(usize::try_from(bytes.min(4 << 20)).unwrap_or(0)))
        }
        "test_wait" => {
            let seconds = number("seconds").unwrap_or(0.0).clamp(0.0, 60.0);
            wait(world, link, Duration::from_secs_f64(seconds)).await
        }
        _ => text(Value::Object(given.arguments.clone()).to_string()),
    })
}

fn structured(data: &Value) -> Value {
    let mut answer = text(data.to_string());
    answer["structuredContent"] = data.clone();
    answer
}

fn changed(world: &World, change: Change, more: &AtomicBool) -> Value {
    more.fetch_xor(true, Ordering::SeqCst);
    world.tell(change);
    text("Mutation triggered")
}

/// Counts a call that is dropped before it ends.
struct Unfinished<'a>(Option<&'a AtomicU64>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn wait(world: &World, link: &Link, long: Duration) -> Value {
    let mut unfinished = Unfinished(Some(&world.cancelled));
    let start = Instant::now();
    while start.elapsed() < long {
        let done = start.elapsed().as_secs_f64();
        link.progress(done, long.as_secs_f64(), "waiting").await;
        sleep(Duration::from_millis(100).min(long.saturating_sub(start.elapsed()))).await;
    }
    unfinished.0 = None;
    text(format!("waited {} s", long.as_secs_f64()))
}
