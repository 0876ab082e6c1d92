//! Tasks: calls that continue after their request was answered. Covers the extension of 2026-07-28
//! and the tasks of 2025-11-25.
//!
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>

use tool::Json;

use crate::Era;

/// Name of the extension in the capabilities of both sides (2026-07-28).
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Key in `_meta` for the task of a message (2025-11-25; removed since).
pub const RELATED: &str = "io.modelcontextprotocol/related-task";
/// Notification about a task on `subscriptions/listen` (2026-07-28).
pub const NOTICE: &str = "notifications/tasks";
/// Maximum length of a task id, in bytes.
pub const ID: usize = 1_024;

/// State of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
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

impl Status {
    /// All states of a task.
    pub const ALL: [Self; 5] =
        [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled];

    /// Parses MCP's name of a state.
    pub fn read(word: &Json) -> Option<Self> {
        let word: String = word.read().ok()?;
        Self::ALL.into_iter().find(|status| status.as_str() == word)
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
    pub status: Status,
    /// Status text for people; its length is not bounded here.
    pub line: Option<String>,
    /// Poll interval in milliseconds.
    pub poll: Option<u64>,
}

impl Task {
    /// Parses a task with the member names of `era`.
    ///
    /// # Errors
    /// Describes the invalid member.
    pub fn read(task: &Json, era: Era) -> Result<Self, String> {
        let poll = match era {
            Era::Handshake => "pollInterval",
            Era::Stateless => "pollIntervalMs",
        };
        let [id, status, line, poll] = task.pick(["taskId", "status", "statusMessage", poll]);
        let id = id.and_then(|id| id.read::<String>().ok()).ok_or("it has no `taskId`")?;
        if id.is_empty() || id.len() > ID {
            return Err(format!("its `taskId` has {} bytes; 1 to {ID} are taken", id.len()));
        }
        let status = status.as_ref().and_then(Status::read).ok_or("its `status` is unknown")?;
        let line = line.and_then(|line| line.read().ok());
        // MCP allows no fractions here, but a fraction is no reason to lose the task.
        let poll = poll.and_then(|poll| poll.read().ok());
        Ok(Self { id, status, line, poll })
    }
}

/// Returns the id of the task that the params name (2025-11-25).
pub fn related(params: &Json) -> Option<String> {
    let id = crate::meta::of(params)?.get(RELATED)?.get("taskId")?.read::<String>().ok()?;
    (1..=ID).contains(&id.len()).then_some(id)
}

/// Returns whether the capabilities of either side declare the extension.
pub fn declared(extensions: Option<&Json>) -> bool {
    let found = extensions.and_then(|extensions| extensions.get(EXTENSION));
    found.is_some_and(|extension| extension.kind() == "object")
}

/// Returns the capability as it is declared under `extensions`.
pub fn extensions() -> Json {
    Json::fields([(EXTENSION, &Json::empty())])
}

/// Returns the `data` of an error that requires the extension.
pub fn required() -> Json {
    let needed = Json::fields([("extensions", &extensions())]);
    Json::fields([("requiredCapabilities", &needed)])
}

/// Returns whether the `data` of an error requires the extension.
pub fn is_required(data: &Json) -> bool {
    let needed = data.get("requiredCapabilities").and_then(|needed| needed.get("extensions"));
    needed.is_some_and(|extensions| extensions.get(EXTENSION).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Json;

    use super::{ID, Status, Task, declared, extensions, is_required, required};
    use crate::Era;

    #[test]
    fn a_task_is_read_in_the_words_of_its_era() {
        let task = json!({"taskId": "t", "status": "input_required", "statusMessage": "why",
            "pollInterval": 5, "pollIntervalMs": 7, "odd": {}});
        for (era, poll) in [(Era::Handshake, 5), (Era::Stateless, 7)] {
            let read = Task::read(&Json::of(&task), era).unwrap();
            let line = Some("why".to_owned());
            let status = Status::InputRequired;
            assert_eq!(read, Task { id: "t".to_owned(), status, line, poll: Some(poll) });
        }
    }

    #[test]
    fn what_is_no_task_says_why() {
        let long = "x".repeat(ID + 1);
        for (task, why) in [
            (json!([]), "it has no `taskId`"),
            (json!({"taskId": 5, "status": "working"}), "it has no `taskId`"),
            (json!({"taskId": "", "status": "working"}), "its `taskId` has 0 bytes"),
            (json!({"taskId": long, "status": "working"}), "its `taskId` has 1025 bytes"),
            (json!({"taskId": "t", "status": "done"}), "its `status` is unknown"),
            (json!({"taskId": "t"}), "its `status` is unknown"),
        ] {
            let told = Task::read(&Json::of(&task), Era::Stateless).unwrap_err();
            assert!(told.starts_with(why), "{told}");
        }
        let odd = json!({"taskId": "t", "status": "working", "pollIntervalMs": -1.5});
        assert_eq!(Task::read(&Json::of(&odd), Era::Stateless).unwrap().poll, None);
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for status in Status::ALL {
            assert_eq!(Status::read(&Json::of(status.as_str())), Some(status));
        }
        assert_eq!(Status::read(&Json::of(&1)), None);
        assert!(declared(Some(&extensions())) && is_required(&required()));
        assert!(!declared(None) && !declared(Some(&Json::empty())) && !is_required(&Json::empty()));
    }
}
