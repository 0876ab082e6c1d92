//! Calls that continue after their response: the extension `io.modelcontextprotocol/tasks`, and the
//! earlier tasks of 2025-11-25.
//!
//! Nothing runs in the background: a task's end time is compared with the clock on request.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::calls::{Outcome, failure, text};
use super::input::{self, Given};
use super::link::Link;
use super::rpc::{Fault, Request};
use super::world::World;

/// The name of the extension.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The metadata key with the task of a message in 2025-11-25.
const RELATED: &str = "io.modelcontextprotocol/related-task";
/// Maximum number of tasks; further ones are rejected.
const MOST: usize = 1_000;
/// The fixed creation time of tasks; nothing depends on the time of day.
const MADE: &str = "2026-07-28T00:00:00Z";

/// A task of the fixture.
#[derive(Debug)]
pub(super) struct Task {
    until: Instant,
    end: End,
    /// Unanswered input requests.
    open: Map<String, Value>,
    cancelled: bool,
}

/// The end of a task.
#[derive(Debug, Clone)]
enum End {
    Result(Value),
    Error(Value),
}

fn knows(capabilities: &Value) -> bool {
    capabilities["extensions"].get(EXTENSION).is_some()
}

fn needed() -> Fault {
    Fault::needs(&json!({ "extensions": { EXTENSION: {} } }))
}

/// The task support of a tool, in the format of 2025-11-25.
pub(super) fn support(name: &str) -> Option<&'static str> {
    match name {
        "slow_compute" | "test_tool_with_task" => Some("optional"),
        "failing_job" | "protocol_error_job" | "confirm_delete" | "multi_input" => Some("required"),
        _ => None,
    }
}

/// The duration and the end of a tool that may become a task.
fn plan(given: &Given) -> Option<(Duration, End)> {
    let seconds = given.arguments.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
    let seconds = Duration::from_secs_f64(seconds.clamp(0.0, 60.0));
    let soon = Duration::from_millis(200);
    let name = given.name.as_str();
    let done = text(format!("{name} is done"));
    Some(match name {
        "slow_compute" => (seconds, End::Result(done)),
        "failing_job" => (soon, End::Result(failure("the job failed"))),
        "protocol_error_job" => (soon, End::Error(json!({ "code": -32603, "message": "broken" }))),
        "confirm_delete" | "multi_input" => (Duration::ZERO, End::Result(done)),
        _ => return None,
    })
}

/// Calls a tool that may become a task; `None` for other tools.
///
/// # Errors
/// Returns an error if the tool requires a task and the client does not support tasks.
pub(super) async fn call(world: &World, given: &Given) -> Result<Option<Outcome>, Fault> {
    let name = given.name.as_str();
    if name == "greet" {
        let whom = given.arguments.get("name").and_then(Value::as_str).unwrap_or("World");
        return Ok(Some(Outcome::Done(text(format!("Hello, {whom}!")))));
    }
    let Some((long, end)) = plan(given) else { return Ok(None) };
    if knows(&given.capabilities) {
        return begin(world, long, end, input::of_task(name)).map(Some);
    }
    match (name, end) {
        ("slow_compute", End::Result(result)) => {
            sleep(long).await;
            Ok(Some(Outcome::Done(result)))
        }
        _ => Err(needed()),
    }
}

/// Starts a task for a call with complete answers.
///
/// # Errors
/// Returns an error if the client does not support tasks or there are too many.
pub(super) fn begin_for(
    world: &World,
    given: &Given,
    got: &Map<String, Value>,
) -> Result<Outcome, Fault> {
    if !knows(&given.capabilities) {
        return Err(needed());
    }
    let end = End::Result(text(format!("received: {}", Value::Object(got.clone()))));
    begin(world, Duration::from_millis(200), end, Map::new())
}

fn begin(
    world: &World,
    long: Duration,
    end: End,
    open: Map<String, Value>,
) -> Result<Outcome, Fault> {
    let mut tasks = world.tasks.lock().unwrap();
    if tasks.len() >= MOST {
        return Err(Fault::new(-32603, "too many tasks"));
    }
    let id = Uuid::new_v4().to_string();
    let task = Task { until: Instant::now() + long, end, open, cancelled: false };
    let mut members = task.members(&id);
    // The result is only available through `tasks/get`.
    for late in ["result", "error", "inputRequests"] {
        members.remove(late);
    }
    members.insert("status".to_owned(), json!("working"));
    tasks.insert(id, task);
    Ok(Outcome::Task(Value::Object(members)))
}

impl Task {
    fn status(&self) -> &'static str {
        match &self.end {
            _ if self.cancelled => "cancelled",
            _ if !self.open.is_empty() => "input_required",
            _ if Instant::now() < self.until => "working",
            End::Result(_) => "completed",
            End::Error(_) => "failed",
        }
    }

    /// The result, if it has ended.
    fn ended(&self) -> Option<Result<Value, Fault>> {
        match (self.status(), &self.end) {
            ("completed", End::Result(result)) => Some(Ok(result.clone())),
            ("failed", End::Error(error)) => {
                let code = error["code"].as_i64().unwrap_or_default();
                Some(Err(Fault::new(code, error["message"].as_str().unwrap_or_default())))
            }
            ("cancelled", _) => Some(Err(Fault::new(-32603, "the task was cancelled"))),
            _ => None,
        }
    }

    fn members(&self, id: &str) -> Map<String, Value> {
        let status = self.status();
        let mut all = json!({ "taskId": id, "status": status, "createdAt": MADE,
            "lastUpdatedAt": MADE, "ttlMs": 600_000, "pollIntervalMs": 200 });
        match (status, &self.end) {
            ("completed", End::Result(result)) => {
                all["result"] = result.clone();
                all["result"]["resultType"] = json!("complete");
            }
            ("failed", End::Error(error)) => all["error"] = error.clone(),
            ("input_required", _) => all["inputRequests"] = Value::Object(self.open.clone()),
            _ => {}
        }
        all.as_object().cloned().unwrap_or_default()
    }
}

/// Responds to `tasks/get`, `tasks/update` and `tasks/cancel`.
///
/// # Errors
/// Returns an error if the client has not declared the extension or the task does not exist.
pub(super) fn answer(
    world: &World,
    request: &Request,
    capabilities: &Value,
) -> Result<Value, Fault> {
    if !knows(capabilities) {
        return Err(needed());
    }
    let id = request.text("taskId")?;
    let mut tasks = world.tasks.lock().unwrap();
    let unknown = || Fault::params(format!("there is no task `{id}`"));
    let task = tasks.get_mut(id).ok_or_else(unknown)?;
    match request.method.as_str() {
        "tasks/get" => return Ok(Value::Object(task.members(id))),
        "tasks/update" => {
            let responses = request.params.get("inputResponses").and_then(Value::as_object);
            let responses = responses.ok_or_else(|| Fault::params("no `inputResponses`"))?;
            task.open.retain(|key, _| !responses.contains_key(key));
        }
        _ if matches!(task.status(), "working" | "input_required") => task.cancelled = true,
        _ => {}
    }
    Ok(json!({}))
}

/// Starts a task as in 2025-11-25: the client requests it.
///
/// # Errors
/// Returns an error if the tool does not support tasks or there are too many.
pub(super) fn begin_older(world: &World, given: &Given) -> Result<Value, Fault> {
    let no = || Fault::no_method("tools/call with `task`");
    let (long, end) = plan(given).ok_or_else(no)?;
    let Outcome::Task(members) = begin(world, long, end, input::of_task(&given.name))? else {
        return Err(no());
    };
    Ok(json!({ "task": older(&members) }))
}

/// A task in the format of 2025-11-25.
fn older(members: &Value) -> Value {
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
pub(super) fn answer_older(world: &World, request: &Request) -> Result<Value, Fault> {
    let id = request.text("taskId")?;
    let mut tasks = world.tasks.lock().unwrap();
    let task =
        tasks.get_mut(id).ok_or_else(|| Fault::params(format!("there is no task `{id}`")))?;
    if request.method == "tasks/cancel" {
        if !matches!(task.status(), "working" | "input_required") {
            return Err(Fault::params(format!("the task `{id}` has ended")));
        }
        task.cancelled = true;
    }
    Ok(older(&Value::Object(task.members(id))))
}

/// Responds to `tasks/result`: requests the input that the task needs, and returns after its end.
///
/// # Errors
/// Returns an error if the task does not exist or ended with one.
pub(super) async fn result(world: &World, request: &Request, link: &Link) -> Result<Value, Fault> {
    let id = request.text("taskId")?;
    let unknown = || Fault::params(format!("there is no task `{id}`"));
    let open = world.tasks.lock().unwrap().get(id).map(|task| task.open.clone());
    let asking = open.ok_or_else(unknown)?.into_iter().map(|(key, question)| async move {
        let mut params = question["params"].clone();
        params["_meta"] = json!({ RELATED: { "taskId": id } });
        link.ask(question["method"].as_str().unwrap_or_default(), &params).await?;
        if let Some(task) = world.tasks.lock().unwrap().get_mut(id) {
            task.open.remove(&key);
        }
        Ok::<_, Fault>(())
    });
    for asked in join_all(asking).await {
        asked?;
    }
    loop {
        if let Some(ended) = world.tasks.lock().unwrap().get(id).ok_or_else(unknown)?.ended() {
            let mut result = ended?;
            result["_meta"] = json!({ RELATED: { "taskId": id } });
            return Ok(result);
        }
        sleep(Duration::from_millis(20)).await;
    }
}
