//! Calls that go on after they were answered: the extension `io.modelcontextprotocol/tasks`.
//!
//! Nothing runs here: a task's time is compared with the clock when it is asked for.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::calls::{Outcome, failure, text};
use super::input::{self, Given};
use super::rpc::{Fault, Request};
use super::world::World;

/// The name of the extension.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Most tasks that are kept; the next one is refused.
const MOST: usize = 1_000;
/// When a task is said to have been made; nothing here depends on the time of day.
const MADE: &str = "2026-07-28T00:00:00Z";

/// One task.
#[derive(Debug)]
pub(super) struct Task {
    until: Instant,
    end: End,
    /// Questions without an answer.
    open: Map<String, Value>,
    cancelled: bool,
}

/// What a task comes to.
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

/// A call of a tool that may become a task; nothing where the tool is none of these.
///
/// # Errors
/// Where the tool must become a task and the caller knows none.
pub(super) async fn call(world: &World, given: &Given) -> Result<Option<Outcome>, Fault> {
    let known = knows(&given.capabilities);
    let seconds = given.arguments.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
    let seconds = Duration::from_secs_f64(seconds.clamp(0.0, 60.0));
    let soon = Duration::from_millis(200);
    let name = given.name.as_str();
    let done = text(format!("{name} is done"));
    let (long, end) = match name {
        "greet" => {
            let whom = given.arguments.get("name").and_then(Value::as_str).unwrap_or("World");
            return Ok(Some(Outcome::Done(text(format!("Hello, {whom}!")))));
        }
        "slow_compute" => (seconds, End::Result(done)),
        "failing_job" => (soon, End::Result(failure("the job failed"))),
        "protocol_error_job" => (soon, End::Error(json!({ "code": -32603, "message": "broken" }))),
        "confirm_delete" | "multi_input" => (Duration::ZERO, End::Result(done)),
        _ => return Ok(None),
    };
    if known {
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

/// A task for a call that has its answers already.
///
/// # Errors
/// Where the caller knows no tasks, or there are too many.
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
    // What came of it is for `tasks/get` alone.
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

/// `tasks/get`, `tasks/update`, `tasks/cancel`.
///
/// # Errors
/// Where the caller has not declared the extension, or there is no such task.
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
