//! Result of a task: fetched or read from its final state, and converted to an outcome.

use ::mcp::RpcError;
use ::mcp::tasks::{self, TaskStatus};
use tool::{ExecuteError, ExecutionState, Json, Outcome, OutcomeBody};

use super::UpstreamCall;
use super::call_mode::CallMode;
use super::remote_task::RemoteTask;
use super::request_driver::RequestOutcome;
use super::task_polling::mark_maybe_sent;
use crate::outgoing_request::{OutgoingRequest, RequestParams};

impl UpstreamCall<'_> {
    /// Converts the final state of a 2026-07-28 task, which includes its result.
    pub(super) fn finish_task(
        &self,
        status: TaskStatus,
        final_state: Option<&Json>,
    ) -> Result<ExecutionState, ExecuteError> {
        let [result, error] =
            final_state.map_or([None, None], |state| state.pick(["result", "error"]));
        match (status, result, error) {
            (TaskStatus::Completed, Some(result), _) => self.to_outcome(result),
            (TaskStatus::Completed, None, _) => {
                Err(self.invalid_task_error("it ended without a `result`"))
            }
            (_, _, Some(error)) => {
                let [code, message, data] = error.pick(["code", "message", "data"]);
                let code = code.and_then(|code| code.decode().ok());
                let message = message.and_then(|message| message.decode::<String>().ok());
                let (Some(code), Some(message)) = (code, message) else {
                    return Err(self.invalid_task_error("its `error` is not a JSON-RPC error"));
                };
                Err(self.rpc_error(RpcError { code, message, data }))
            }
            (_, _, None) => Err(self.invalid_task_error("it failed without an `error`")),
        }
    }

    /// Fetches the result of a 2025-11-25 task and answers its input requests before.
    pub(super) async fn fetch_task_result(
        &self,
        mut remote: RemoteTask<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let request = OutgoingRequest {
            params: RequestParams::Object(&remote.id_params),
            wants_progress: self.ctx.progress.has_listener(),
            ..OutgoingRequest::internal("tasks/result", &remote.id_params)
        };
        let exchange = self
            .send_request(&remote.connection, &request, (None, Some(&remote.task_id)))
            .await
            .map_err(mark_maybe_sent)?;
        let result = self.drive_request(exchange, CallMode::Direct).await;
        let is_pending = matches!(result, Ok(RequestOutcome::Pending(_)));
        let has_ended = matches!(&result, Ok(RequestOutcome::Result(_)))
            || result.as_ref().is_err_and(|error| error.rpc_error.is_some());
        remote.needs_cancel = !is_pending && !has_ended;
        match result.map_err(mark_maybe_sent)? {
            RequestOutcome::Pending(state) => Ok(state),
            RequestOutcome::Result(result) => self.to_outcome(result),
        }
    }

    /// Converts the result of a call to its outcome.
    pub(super) fn to_outcome(&self, result: Json) -> Result<ExecutionState, ExecuteError> {
        let [is_error, kind] = result.pick(["isError", "resultType"]);
        let is_complete = kind.is_none_or(|kind| kind.as_str() == "\"complete\"");
        if result.kind() != "object" || !is_complete {
            return Err(self.invalid_task_error("its `result` is not a call result"));
        }
        let is_error = is_error.is_some_and(|flag| flag.as_str() == "true");
        let body = OutcomeBody::Mcp(strip_related_task(result));
        Ok(ExecutionState::Completed(Outcome { body, is_error }))
    }
}

/// Removes the id of the server's own task from a result.
pub(super) fn strip_related_task(result: Json) -> Json {
    let meta =
        ::mcp::meta::get_meta(&result).filter(|meta| meta.get(tasks::RELATED_TASK_KEY).is_some());
    let Some(meta) = meta.map(|meta| meta.without_member(tasks::RELATED_TASK_KEY)) else {
        return result;
    };
    if meta.members().is_empty() {
        return result.without_member(::mcp::meta::META);
    }
    result.with_member(::mcp::meta::META, &meta)
}
