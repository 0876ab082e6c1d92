//! The handlers of `tasks/get`, `tasks/update` and `tasks/cancel`, and task subscriptions.

use std::sync::Arc;

use http::StatusCode;
use mcp::{RpcError, code, task};
use tool::Json;

use super::state::Task;
use crate::asked::{Asked, text};
use crate::body::Reply;
use crate::refused::Refused;

/// Maximum number of tasks that one stream subscribes to.
const HEARD: usize = 64;

/// Handles one of the three task methods.
pub(crate) fn answer(asked: &Asked<'_>) -> Result<Reply, Refused> {
    declares(asked)?;
    let [id] = asked.pick(["taskId"]);
    let id = text("taskId", id.as_ref())?;
    // The same error for ids that never existed, belong to another caller or have expired.
    let task = asked.who.doors.mcp.kept.find(asked.who, &id).ok_or_else(|| {
        Refused::params("there is no such task here: its id is unknown, or it has expired")
    })?;
    match asked.method {
        "tasks/get" => return Ok(asked.result(&task.told())),
        "tasks/update" => {
            let answers = asked.named.answers.as_ref();
            let kind = answers.map_or("missing", Json::kind);
            let answers = answers.filter(|_| kind == "object").ok_or_else(|| {
                Refused::params(format!("`params.inputResponses` is {kind}; expected an object"))
            })?;
            task.answer(answers.members());
        }
        _ => task.cancel.cancel(),
    }
    Ok(asked.result(&Json::empty()))
}

fn declares(asked: &Asked<'_>) -> Result<(), Refused> {
    if asked.client().tasks {
        return Ok(());
    }
    let told = format!("tasks are for clients that declare the extension `{}`", task::EXTENSION);
    let error = RpcError::new(code::MISSING_CAPABILITY, told);
    let error = RpcError { data: Some(task::required()), ..error };
    Err(Refused { status: StatusCode::BAD_REQUEST, error })
}

/// The tasks that a `subscriptions/listen` stream subscribes to, by their ids. Unknown ids are
/// omitted.
pub(crate) fn listened(
    asked: &Asked<'_>,
    wanted: &Json,
) -> Result<Vec<(String, Arc<Task>)>, Refused> {
    let Some(ids) = wanted.get("taskIds").filter(|ids| ids.kind() != "null") else {
        return Ok(Vec::new());
    };
    declares(asked)?;
    let read: Result<Vec<String>, _> = ids.read();
    let mut ids = read
        .map_err(|_| Refused::params("`params.notifications.taskIds` must be a list of strings"))?;
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > HEARD {
        return Err(Refused::params(format!("at most {HEARD} tasks are listened to at once")));
    }
    let found = ids.into_iter().filter_map(|id| {
        let task = asked.who.doors.mcp.kept.find(asked.who, &id)?;
        task.is_open().then_some((id, task))
    });
    Ok(found.collect())
}
