//! Tasks: calls that go on after they were answered. The extension of 2026-07-28, and what 2025-11-25
//! had in its place.
//!
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>

use tool::Json;

use crate::Era;

/// The extension's name among the capabilities of both sides (2026-07-28).
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The task a message belongs to, in `_meta` (2025-11-25; gone since).
pub const RELATED: &str = "io.modelcontextprotocol/related-task";
/// What tells of a task on `subscriptions/listen` (2026-07-28).
pub const NOTICE: &str = "notifications/tasks";
/// Bytes of a task's id that are taken.
pub const ID: usize = 1_024;

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It goes on.
    Working,
    /// It waits for answers of its client.
    InputRequired,
    /// There is a result, which may be a tool's failure.
    Completed,
    /// There is an error of the protocol.
    Failed,
    /// It was given up.
    Cancelled,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled];

    /// Reads MCP's word.
    pub fn read(word: &Json) -> Option<Self> {
        let word: String = word.read().ok()?;
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// MCP's word for it.
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

/// What a server says of a task, as far as it is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its id at that server.
    pub id: String,
    /// Where it stands.
    pub status: Status,
    /// A line for people, not bounded here.
    pub line: Option<String>,
    /// How many milliseconds to wait before asking again.
    pub poll: Option<u64>,
}

impl Task {
    /// Reads one, in the words of `era`.
    ///
    /// # Errors
    /// In words, what is wrong with it.
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
        // A number with a fraction is none that MCP has, and no reason to lose a task.
        let poll = poll.and_then(|poll| poll.read().ok());
        Ok(Self { id, status, line, poll })
    }
}

/// The id of the task that a message belongs to, where its params name one (2025-11-25).
pub fn related(params: &Json) -> Option<String> {
    let id = crate::meta::of(params)?.get(RELATED)?.get("taskId")?.read::<String>().ok()?;
    (1..=ID).contains(&id.len()).then_some(id)
}

/// Whether capabilities, of either side, have the extension.
pub fn declared(extensions: Option<&Json>) -> bool {
    let found = extensions.and_then(|extensions| extensions.get(EXTENSION));
    found.is_some_and(|extension| extension.kind() == "object")
}

/// The capability as it is declared: what stands under `extensions`.
pub fn extensions() -> Json {
    Json::fields([(EXTENSION, &Json::empty())])
}

/// The `data` of an error that wants the extension declared.
pub fn required() -> Json {
    let needed = Json::fields([("extensions", &extensions())]);
    Json::fields([("requiredCapabilities", &needed)])
}

/// Whether the `data` of an error wants the extension declared.
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
