//! Calls that continue after their response: the extension `io.modelcontextprotocol/tasks`, and the
//! earlier tasks of 2025-11-25.
//!
//! Nothing runs in the background: a task's end time is compared with the clock on request.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::caller_link::CallerLink;
use super::fixture_state::FixtureState;
use super::input_rounds::{self, CallInput};
use super::json_rpc::{FixtureRequest, RpcError};
use super::tool_calls::{CallOutcome, error_result, text_result};

/// The name of the extension.
pub(super) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The metadata key with the task of a message in 2025-11-25.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// Maximum number of tasks; further ones are rejected.
const MAX_TASKS: usize = 1_000;
/// The fixed creation time of tasks; nothing depends on the time of day.
const CREATED_AT: &str = "2026-07-28T00:00:00Z";

/// A task of the fixture.
#[derive(Debug)]
pub(super) struct FixtureTask {
    ends_at: Instant,
    end: TaskEnd,
    /// Unanswered input requests.
    open_questions: Map<String, Value>,
    is_cancelled: bool,
}

/// The end of a task.
#[derive(Debug, Clone)]
enum TaskEnd {
    Result(Value),
    Error(Value),
}

fn supports_tasks(capabilities: &Value) -> bool {
    capabilities["extensions"].get(TASKS_EXTENSION).is_some()
}

fn tasks_required() -> RpcError {
    RpcError::missing_capability(&json!({ "extensions": { TASKS_EXTENSION: {} } }))
}

/// The task support of a tool, in the format of 2025-11-25.
pub(super) fn task_support(name: &str) -> Option<&'static str> {
    match name {
        "slow_compute" | "test_tool_with_task" => Some("optional"),
        "failing_job" | "protocol_error_job" | "confirm_delete" | "multi_input" => Some("required"),
        _ => None,
    }
}

/// The duration and the end of a tool that may become a task.
fn plan_task(given: &CallInput) -> Option<(Duration, TaskEnd)> {
    let seconds = given.arguments.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
    let seconds = Duration::from_secs_f64(seconds.clamp(0.0, 60.0));
    let soon = Duration::from_millis(200);
    let name = given.name.as_str();
    let done = text_result(format!("{name} is done"));
    Some(match name {
        "slow_compute" => (seconds, TaskEnd::Result(done)),
        "failing_job" => (soon, TaskEnd::Result(error_result("the job failed"))),
        "protocol_error_job" => {
            (soon, TaskEnd::Error(json!({ "code": -32603, "message": "broken" })))
        }
        "confirm_delete" | "multi_input" => (Duration::ZERO, TaskEnd::Result(done)),
        _ => return None,
    })
}

/// Calls a tool that may become a task; `None` for other tools.
///
/// # Errors
/// Returns an error if the tool requires a task and the client does not support tasks.
pub(super) async fn start_call(
    fixture: &FixtureState,
    input: &CallInput,
) -> Result<Option<CallOutcome>, RpcError> {
    let name = input.name.as_str();
    if name == "greet" {
        let whom = input.arguments.get("name").and_then(Value::as_str).unwrap_or("World");
        return Ok(Some(CallOutcome::Done(text_result(format!("Hello, {whom}!")))));
    }
    let Some((long, end)) = plan_task(input) else { return Ok(None) };
    if supports_tasks(&input.capabilities) {
        return begin_task(fixture, long, end, input_rounds::task_questions(name)).map(Some);
    }
    match (name, end) {
        ("slow_compute", TaskEnd::Result(result)) => {
            sleep(long).await;
            Ok(Some(CallOutcome::Done(result)))
        }
        _ => Err(tasks_required()),
    }
}

/// Starts a task for a call with complete answers.
///
/// # Errors
/// Returns an error if the client does not support tasks or there are too many.
pub(super) fn begin_answered(
    fixture: &FixtureState,
    input: &CallInput,
    answers: &Map<String, Value>,
) -> Result<CallOutcome, RpcError> {
    if !supports_tasks(&input.capabilities) {
        return Err(tasks_required());
    }
    let end = TaskEnd::Result(text_result(format!("received: {}", Value::Object(answers.clone()))));
    begin_task(fixture, Duration::from_millis(200), end, Map::new())
}

fn begin_task(
    fixture: &FixtureState,
    long: Duration,
    end: TaskEnd,
    open: Map<String, Value>,
) -> Result<CallOutcome, RpcError> {
    let mut tasks = fixture.tasks.lock().unwrap();
    if tasks.len() >= MAX_TASKS {
        return Err(RpcError::new(-32603, "too many tasks"));
    }
    let id = Uuid::new_v4().to_string();
    let task = FixtureTask {
        ends_at: Instant::now() + long,
        end,
        open_questions: open,
        is_cancelled: false,
    };
    let mut members = task.task_members(&id);
    // The result is only available through `tasks/get`.
    for late in ["result", "error", "inputRequests"] {
        members.remove(late);
    }
    members.insert("status".to_owned(), json!("working"));
    tasks.insert(id, task);
    Ok(CallOutcome::Task(Value::Object(members)))
}

impl FixtureTask {
    fn task_status(&self) -> &'static str {
        match &self.end {
            _ if self.is_cancelled => "cancelled",
            _ if !self.open_questions.is_empty() => "input_required",
            _ if Instant::now() < self.ends_at => "working",
            TaskEnd::Result(_) => "completed",
            TaskEnd::Error(_) => "failed",
        }
    }

    /// The result, if it has ended.
    fn end_result(&self) -> Option<Result<Value, RpcError>> {
        match (self.task_status(), &self.end) {
            ("completed", TaskEnd::Result(result)) => Some(Ok(result.clone())),
            ("failed", TaskEnd::Error(error)) => {
                let code = error["code"].as_i64().unwrap_or_default();
                Some(Err(RpcError::new(code, error["message"].as_str().unwrap_or_default())))
            }
            ("cancelled", _) => Some(Err(RpcError::new(-32603, "the task was cancelled"))),
            _ => None,
        }
    }

    fn task_members(&self, id: &str) -> Map<String, Value> {
        let status = self.task_status();
        let mut all = json!({ "taskId": id, "status": status, "createdAt": CREATED_AT,
            "lastUpdatedAt": CREATED_AT, "ttlMs": 600_000, "pollIntervalMs": 200 });
        match (status, &self.end) {
            ("completed", TaskEnd::Result(result)) => {
                all["result"] = result.clone();
                all["result"]["resultType"] = json!("complete");
            }
            ("failed", TaskEnd::Error(error)) => all["error"] = error.clone(),
            ("input_required", _) => {
                all["inputRequests"] = Value::Object(self.open_questions.clone());
            }
            _ => {}
        }
        all.as_object().cloned().unwrap_or_default()
    }
}

/// Responds to `tasks/get`, `tasks/update` and `tasks/cancel`.
///
/// # Errors
/// Returns an error if the client has not declared the extension or the task does not exist.
pub(super) fn answer_method(
    fixture: &FixtureState,
    request: &FixtureRequest,
    capabilities: &Value,
) -> Result<Value, RpcError> {
    if !supports_tasks(capabilities) {
        return Err(tasks_required());
    }
    let id = request.text_param("taskId")?;
    let mut tasks = fixture.tasks.lock().unwrap();
    let unknown = || RpcError::invalid_params(format!("there is no task `{id}`"));
    let task = tasks.get_mut(id).ok_or_else(unknown)?;
    match request.method.as_str() {
        "tasks/get" => return Ok(Value::Object(task.task_members(id))),
        "tasks/update" => {
            let responses = request.params.get("inputResponses").and_then(Value::as_object);
            let responses =
                responses.ok_or_else(|| RpcError::invalid_params("no `inputResponses`"))?;
            task.open_questions.retain(|key, _| !responses.contains_key(key));
        }
        _ if matches!(task.task_status(), "working" | "input_required") => task.is_cancelled = true,
        _ => {}
    }
    Ok(json!({}))
}

/// Starts a task as in 2025-11-25: the client requests it.
///
/// # Errors
/// Returns an error if the tool does not support tasks or there are too many.
pub(super) fn begin_legacy(fixture: &FixtureState, input: &CallInput) -> Result<Value, RpcError> {
    let no = || RpcError::unknown_method("tools/call with `task`");
    let (long, end) = plan_task(input).ok_or_else(no)?;
    let CallOutcome::Task(members) =
        begin_task(fixture, long, end, input_rounds::task_questions(&input.name))?
    else {
        return Err(no());
    };
    Ok(json!({ "task": legacy_task(&members) }))
}

/// A task in the format of 2025-11-25.
fn legacy_task(members: &Value) -> Value {
    let mut task = json!({ "ttl": members["ttlMs"], "pollInterval": members["pollIntervalMs"] });
    for key in ["taskId", "status", "createdAt", "lastUpdatedAt"] {
        task[key] = members[key].clone();
    }
    task
}

/// Responds to `tasks/get` and `tasks/cancel` of 2025-11-25.
///
/// # Errors
/// Returns an error if the task does not exist, or it has ended and is to be cancelled.
pub(super) fn answer_legacy(
    fixture: &FixtureState,
    request: &FixtureRequest,
) -> Result<Value, RpcError> {
    let id = request.text_param("taskId")?;
    let mut tasks = fixture.tasks.lock().unwrap();
    let task = tasks
        .get_mut(id)
        .ok_or_else(|| RpcError::invalid_params(format!("there is no task `{id}`")))?;
    if request.method == "tasks/cancel" {
        if !matches!(task.task_status(), "working" | "input_required") {
            return Err(RpcError::invalid_params(format!("the task `{id}` has ended")));
        }
        task.is_cancelled = true;
    }
    Ok(legacy_task(&Value::Object(task.task_members(id))))
}

/// Responds to `tasks/result`: requests the input that the task needs, and returns after its end.
///
/// # Errors
/// Returns an error if the task does not exist or ended with one.
pub(super) async fn task_result(
    fixture: &FixtureState,
    request: &FixtureRequest,
    link: &CallerLink,
) -> Result<Value, RpcError> {
    let id = request.text_param("taskId")?;
    let unknown = || RpcError::invalid_params(format!("there is no task `{id}`"));
    let open = fixture.tasks.lock().unwrap().get(id).map(|task| task.open_questions.clone());
    let asking = open.ok_or_else(unknown)?.into_iter().map(|(key, question)| async move {
        let mut params = question["params"].clone();
        params["_meta"] = json!({ RELATED_TASK: { "taskId": id } });
        link.request_input(question["method"].as_str().unwrap_or_default(), &params).await?;
        if let Some(task) = fixture.tasks.lock().unwrap().get_mut(id) {
            task.open_questions.remove(&key);
        }
        Ok::<_, RpcError>(())
    });
    for asked in join_all(asking).await {
        asked?;
    }
    loop {
        if let Some(ended) = fixture.tasks.lock().unwrap().get(id).ok_or_else(unknown)?.end_result()
        {
            let mut result = ended?;
            result["_meta"] = json!({ RELATED_TASK: { "taskId": id } });
            return Ok(result);
        }
        sleep(Duration::from_millis(20)).await;
    }
}
