//! The stored form of a task: its id, its end, and what a later process needs to continue its call.

use bytes::Bytes;
use identity::{Principal, RequestRestrictions};
use mcp::{RpcError, error_codes};
use serde::{Deserialize, Serialize};
use tool::{CallId, Json, PermissionLevel, ToolCall, ToolKey};

use super::task_state::{TaskIds, TaskResult, TaskState};

/// Maximum bytes of the arguments of a call that a later process can continue.
const MAX_STORED_ARGUMENTS: usize = 1 << 20;
/// Maximum bytes of the executor's state with which a call continues.
const MAX_CONTINUATION_BYTES: usize = 64 << 10;
/// Maximum bytes of a result in the store.
const MAX_STORED_RESULT: usize = 3 << 20;
/// Error of a task whose call ended with its process.
const LOST_WITH_PROCESS: &str = "the server stopped while the call ran: its effect is unknown, and \
    it is not repeated; call the tool again if that is safe";
/// Error of a task whose result is too large for the store.
const RESULT_NOT_STORED: &str = "the tool ran, but its result was too large to be kept when the \
    server stopped";

/// The row of one task.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredTask {
    /// The sealed id, as its client knows it.
    task: String,
    call: CallId,
    /// The root key whose limits apply.
    pub(super) root_key: Box<str>,
    created_at: u64,
    updated_at: u64,
    was_fetched: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    continuation: Option<TaskContinuation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<StoredTaskResult>,
}

/// The end of a task in the store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredTaskResult {
    Completed(Json),
    Failed {
        code: i64,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Json>,
    },
    Cancelled,
}

/// Data with which a later process continues the call of a task at its source.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskContinuation {
    pub(super) tool: ToolKey,
    pub(super) arguments: Json,
    /// The executor's own state.
    pub(super) state: Vec<u8>,
    pub(super) rights: TaskRights,
}

/// The name that the client used, and the limits of the rights with which it called.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskRights {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_tool_name: Option<String>,
    level: PermissionLevel,
    restrictions: RequestRestrictions,
}

impl TaskRights {
    pub(super) fn new(principal: &Principal, client_tool_name: Option<String>) -> Self {
        let restrictions = principal.rights_class().restrictions().clone();
        Self { client_tool_name, level: principal.level(), restrictions }
    }

    /// Restricts the caller as it is now to the rights that it had when it called.
    pub(super) fn restrict_principal(&self, now: &Principal) -> Principal {
        now.with_max_level(self.level).with_restrictions(&self.restrictions)
    }
}

impl TaskContinuation {
    /// The continuation of a call; `None` if it is too large.
    pub(super) fn new(call: &ToolCall, state: &Bytes, rights: &TaskRights) -> Option<Self> {
        let arguments = call.arguments.as_json();
        let fits = arguments.bytes().len() <= MAX_STORED_ARGUMENTS
            && state.len() <= MAX_CONTINUATION_BYTES;
        fits.then(|| Self {
            tool: call.tool_key.clone(),
            arguments: arguments.clone(),
            state: state.to_vec(),
            rights: rights.clone(),
        })
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.arguments.bytes().len() + self.state.len()
    }
}

impl StoredTask {
    /// The row of a task; `None` if the call has not become one.
    pub(super) fn from_state(state: &TaskState, root_key: &str) -> Option<Self> {
        let TaskIds { task, call } = state.ids.clone()?;
        Some(Self {
            task,
            call,
            root_key: root_key.into(),
            created_at: state.created_at,
            updated_at: state.updated_at,
            was_fetched: state.was_fetched,
            status_message: state.status_message.clone(),
            continuation: state.continuation.clone().filter(|_| state.result.is_none()),
            result: state.result.as_ref().map(StoredTaskResult::new),
        })
    }

    /// The state of the task in a later process. A call that cannot continue has failed.
    pub(super) fn into_state(self, now: u64) -> TaskState {
        let is_dormant = self.result.is_none() && self.continuation.is_some();
        let result = match self.result {
            Some(result) => Some(result.into_result()),
            None if is_dormant => None,
            None => Some(TaskResult::Failed(stored_error(LOST_WITH_PROCESS))),
        };
        let is_lost = matches!(&result, Some(TaskResult::Failed(error)) if error.message == LOST_WITH_PROCESS);
        TaskState {
            source: self.continuation.as_ref().map(|stored| stored.tool.source.clone()),
            ids: Some(TaskIds { task: self.task, call: self.call }),
            created_at: self.created_at,
            updated_at: if is_lost { now.max(self.updated_at) } else { self.updated_at },
            status_message: if is_lost {
                Some(LOST_WITH_PROCESS.to_owned())
            } else {
                self.status_message
            },
            was_fetched: self.was_fetched,
            continuation: self.continuation,
            is_dormant,
            result,
            ..TaskState::default()
        }
    }
}

impl StoredTaskResult {
    fn new(result: &TaskResult) -> Self {
        let failed = |error: &RpcError| Self::Failed {
            code: error.code,
            message: error.message.clone(),
            data: error.data.clone(),
        };
        match result {
            TaskResult::Completed(result) if result.bytes().len() > MAX_STORED_RESULT => {
                failed(&stored_error(RESULT_NOT_STORED))
            }
            TaskResult::Completed(result) => Self::Completed(result.clone()),
            TaskResult::Failed(error) => failed(error),
            TaskResult::Cancelled => Self::Cancelled,
        }
    }

    fn into_result(self) -> TaskResult {
        match self {
            Self::Completed(result) => TaskResult::Completed(result),
            Self::Failed { code, message, data } => {
                TaskResult::Failed(RpcError { data, ..RpcError::new(code, message) })
            }
            Self::Cancelled => TaskResult::Cancelled,
        }
    }
}

fn stored_error(message: &str) -> RpcError {
    RpcError::new(error_codes::INTERNAL_ERROR, message)
}
