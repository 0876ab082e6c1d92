//! The handlers of `tasks/get`, `tasks/update` and `tasks/cancel`, and task subscriptions.

use std::sync::Arc;

use http::StatusCode;
use mcp::{RpcError, error_codes, tasks};
use tool::Json;

use super::call_task::CallTask;
use super::task_continuation::continue_if_dormant;
use crate::request_context::{RequestContext, require_string};
use crate::request_error::RequestError;
use crate::response_body::McpResponse;

/// Maximum number of tasks that one stream subscribes to.
const MAX_TASK_LISTENS: usize = 64;

/// Handles one of the three task methods.
pub(crate) async fn handle_task_method(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    require_tasks_capability(request)?;
    let [id] = request.pick_params(["taskId"]);
    let id = require_string("taskId", id.as_ref())?;
    // The same error for ids that never existed, belong to another caller or have expired.
    let task =
        request.caller.state.mcp_components.task_store.find_task(request.caller, &id).ok_or_else(
            || RequestError::invalid_params("the task does not exist or has expired"),
        )?;
    continue_if_dormant(request, &task);
    match request.method {
        "tasks/get" => {
            let (status, is_first_fetch) = task.status_result();
            if is_first_fetch {
                task.replace_row().await;
            }
            return Ok(request.encode_result(&status));
        }
        "tasks/update" => {
            let answers = request.named_params.input_responses.as_ref();
            let kind = answers.map_or("missing", Json::kind);
            let answers = answers.filter(|_| kind == "object").ok_or_else(|| {
                RequestError::invalid_params(format!(
                    "`params.inputResponses` is {kind}; expected an object"
                ))
            })?;
            task.resolve_inputs(answers.members());
        }
        _ => task.cancel_call().await,
    }
    Ok(request.encode_result(&Json::empty_object()))
}

fn require_tasks_capability(request: &RequestContext<'_>) -> Result<(), RequestError> {
    if request.client_capabilities().supports_tasks {
        return Ok(());
    }
    let message =
        format!("tasks require a client that declares the extension `{}`", tasks::TASKS_EXTENSION);
    let error = RpcError::new(error_codes::MISSING_CAPABILITY, message);
    let error = RpcError { data: Some(tasks::missing_extension_data()), ..error };
    Err(RequestError { status: StatusCode::BAD_REQUEST, error })
}

/// The tasks that a `subscriptions/listen` stream subscribes to, by their ids. Unknown ids are
/// omitted.
pub(crate) fn subscribed_tasks(
    request: &RequestContext<'_>,
    task_ids: &Json,
) -> Result<Vec<(String, Arc<CallTask>)>, RequestError> {
    let Some(ids) = task_ids.get("taskIds").filter(|ids| ids.kind() != "null") else {
        return Ok(Vec::new());
    };
    require_tasks_capability(request)?;
    let read: Result<Vec<String>, _> = ids.decode();
    let mut ids = read.map_err(|_| {
        RequestError::invalid_params("`params.notifications.taskIds` must be a list of strings")
    })?;
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > MAX_TASK_LISTENS {
        return Err(RequestError::invalid_params(format!(
            "at most {MAX_TASK_LISTENS} task subscriptions are allowed"
        )));
    }
    let found = ids.into_iter().filter_map(|id| {
        let task = request.caller.state.mcp_components.task_store.find_task(request.caller, &id)?;
        continue_if_dormant(request, &task);
        task.accepts_listener().then_some((id, task))
    });
    Ok(found.collect())
}
