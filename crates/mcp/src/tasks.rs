//! Tasks: calls that continue after their request was answered. Covers the extension of 2026-07-28
//! and the tasks of 2025-11-25.
//!
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>

use tool::Json;

use crate::ProtocolEra;

/// Name of the extension in the capabilities of both sides (2026-07-28).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Key in `_meta` for the task of a message (2025-11-25; removed since).
pub const RELATED_TASK_KEY: &str = "io.modelcontextprotocol/related-task";
/// Notification about a task on `subscriptions/listen` (2026-07-28).
pub const TASK_NOTIFICATION: &str = "notifications/tasks";
/// Maximum length of a task id, in bytes.
pub const MAX_TASK_ID_BYTES: usize = 1_024;

/// State of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    /// The task is running.
    Working,
    /// The task needs input from its client.
    InputRequired,
    /// The task has a result, which may be a tool failure.
    Completed,
    /// The task ended with a protocol error.
    Failed,
    /// The task was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// All states of a task.
    pub const ALL: [Self; 5] =
        [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled];

    /// Parses MCP's name of a state.
    pub fn from_json(name: &Json) -> Option<Self> {
        let name: String = name.decode().ok()?;
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Returns MCP's name of the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The state of a task as its server reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Id of the task at that server.
    pub id: String,
    /// Current state of the task.
    pub status: TaskStatus,
    /// Status text for people; its length is not bounded here.
    pub status_message: Option<String>,
    /// Poll interval in milliseconds.
    pub poll_interval_ms: Option<u64>,
}

impl Task {
    /// Parses a task with the member names of `era`.
    ///
    /// # Errors
    /// Describes the invalid member.
    pub fn from_json(task: &Json, era: ProtocolEra) -> Result<Self, String> {
        let poll_key = match era {
            ProtocolEra::Handshake => "pollInterval",
            ProtocolEra::Stateless => "pollIntervalMs",
        };
        let [id, status, line, poll] = task.pick(["taskId", "status", "statusMessage", poll_key]);
        let id = id.and_then(|id| id.decode::<String>().ok()).ok_or("it has no `taskId`")?;
        if id.is_empty() || id.len() > MAX_TASK_ID_BYTES {
            return Err(format!(
                "its `taskId` has {} bytes; expected 1 to {MAX_TASK_ID_BYTES}",
                id.len()
            ));
        }
        let status =
            status.as_ref().and_then(TaskStatus::from_json).ok_or("its `status` is unknown")?;
        let line = line.and_then(|line| line.decode().ok());
        // MCP allows no fractions here, but a fraction is no reason to lose the task.
        let poll = poll.and_then(|poll| poll.decode().ok());
        Ok(Self { id, status, status_message: line, poll_interval_ms: poll })
    }
}

/// Returns the id of the task that the params name (2025-11-25).
pub fn related_task_id(params: &Json) -> Option<String> {
    let id = crate::meta::get_meta(params)?
        .get(RELATED_TASK_KEY)?
        .get("taskId")?
        .decode::<String>()
        .ok()?;
    (1..=MAX_TASK_ID_BYTES).contains(&id.len()).then_some(id)
}

/// Returns whether the capabilities of either side declare the extension.
pub fn is_declared(extensions: Option<&Json>) -> bool {
    let found = extensions.and_then(|extensions| extensions.get(TASKS_EXTENSION));
    found.is_some_and(|extension| extension.kind() == "object")
}

/// Returns the capability as it is declared under `extensions`.
pub fn extension_capability() -> Json {
    Json::object_from([(TASKS_EXTENSION, &Json::empty_object())])
}

/// Declares the extension in capabilities, beside the extensions that they have.
pub fn declare_in(capabilities: &Json) -> Json {
    let others = capabilities.get("extensions").unwrap_or_else(Json::empty_object);
    let extensions = others.with_member(TASKS_EXTENSION, &Json::empty_object());
    capabilities.with_member("extensions", &extensions)
}

/// Returns the `data` of an error that requires the extension.
pub fn missing_extension_data() -> Json {
    let needed = Json::object_from([("extensions", &extension_capability())]);
    Json::object_from([("requiredCapabilities", &needed)])
}

/// Returns whether the `data` of an error requires the extension.
pub fn is_missing_extension(data: &Json) -> bool {
    let needed = data.get("requiredCapabilities").and_then(|needed| needed.get("extensions"));
    needed.is_some_and(|extensions| extensions.get(TASKS_EXTENSION).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;

    use super::{
        MAX_TASK_ID_BYTES, Task, TaskStatus, extension_capability, is_declared,
        is_missing_extension, missing_extension_data,
    };
    use crate::ProtocolEra;

    #[test]
    fn a_task_is_read_in_the_words_of_its_era() {
        let task = json!({"taskId": "t", "status": "input_required", "statusMessage": "why",
            "pollInterval": 5, "pollIntervalMs": 7, "odd": {}});
        for (era, poll) in [(ProtocolEra::Handshake, 5), (ProtocolEra::Stateless, 7)] {
            let read = Task::from_json(&Json::encode(&task), era).unwrap();
            let line = Some("why".to_owned());
            let status = TaskStatus::InputRequired;
            assert_eq!(
                read,
                Task {
                    id: "t".to_owned(),
                    status,
                    status_message: line,
                    poll_interval_ms: Some(poll)
                }
            );
        }
    }

    #[test]
    fn what_is_no_task_says_why() {
        let long = "x".repeat(MAX_TASK_ID_BYTES + 1);
        for (task, why) in [
            (json!([]), "it has no `taskId`"),
            (json!({"taskId": 5, "status": "working"}), "it has no `taskId`"),
            (json!({"taskId": "", "status": "working"}), "its `taskId` has 0 bytes"),
            (json!({"taskId": long, "status": "working"}), "its `taskId` has 1025 bytes"),
            (json!({"taskId": "t", "status": "done"}), "its `status` is unknown"),
            (json!({"taskId": "t"}), "its `status` is unknown"),
        ] {
            let told = Task::from_json(&Json::encode(&task), ProtocolEra::Stateless).unwrap_err();
            assert!(told.starts_with(why), "{told}");
        }
        let odd = json!({"taskId": "t", "status": "working", "pollIntervalMs": -1.5});
        assert_eq!(
            Task::from_json(&Json::encode(&odd), ProtocolEra::Stateless).unwrap().poll_interval_ms,
            None
        );
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for status in TaskStatus::ALL {
            assert_eq!(TaskStatus::from_json(&Json::encode(status.as_str())), Some(status));
        }
        assert_eq!(TaskStatus::from_json(&Json::encode(&1)), None);
        assert!(
            is_declared(Some(&extension_capability()))
                && is_missing_extension(&missing_extension_data())
        );
        assert!(
            !is_declared(None)
                && !is_declared(Some(&Json::empty_object()))
                && !is_missing_extension(&Json::empty_object())
        );
    }
}
