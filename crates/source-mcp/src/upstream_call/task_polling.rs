//! Polling of a server's task: follows it until it ends, and forwards its input requests.
//!
//! Polling is the same in 2025-11-25 and 2026-07-28. A client that supports tasks gets its own task; for any other client the call waits.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ::mcp::tasks::{Task, TaskStatus};
use ::mcp::{ProtocolEra, error_codes};
use tokio::time::sleep;
use tool::{BoxFuture, ErrorCode, ExecuteError, ExecutionState, Json, PendingReason};

use super::UpstreamCall;
use super::input_rounds::{InputRequest, ResumeState};
use super::remote_task::RemoteTask;
use crate::connection::McpConnection;
use crate::in_flight_request::RpcOutcome;
use crate::input_requests::client_supports;
use tool::display_text::escape_and_truncate;

/// Poll interval of a task: minimum, maximum and default.
const POLL_INTERVALS: (Duration, Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(30), Duration::from_secs(1));
/// Maximum failed polls in a row.
const MAX_MISSED_POLLS: u32 = 3;
/// Maximum input requests of one task.
const MAX_INPUT_REQUESTS: usize = 1_000;
/// Maximum characters of a status message.
const MAX_STATUS_CHARS: usize = 500;

/// Input request at the client: its key and its answer.
type RunningInputRequest<'a> = (String, BoxFuture<'a, Result<Json, ExecuteError>>);

impl UpstreamCall<'_> {
    /// Turns the call into a task of its client, if possible. `continuation` is the server's task with
    /// which a later process can continue it.
    pub(super) fn convert_to_client_task(&self, continuation: Option<&str>) {
        let continuation =
            continuation.map(|id| ResumeState::Task(Json::encode(id)).encode_state());
        if let Some(task) = self.ctx.task_handle
            && !task.promote_to_task(self.call, continuation)
        {
            tracing::debug!(call = %self.call.id, "call not converted to a task: too many tasks");
        }
    }

    /// Follows the task in the answer `created`.
    pub(super) async fn follow_task(
        &self,
        connection: &Arc<McpConnection>,
        created: &Json,
    ) -> Result<ExecutionState, ExecuteError> {
        let remote_state = match connection.era() {
            ProtocolEra::Handshake => created.get("task"),
            ProtocolEra::Stateless => Some(created.clone()),
        };
        let Some(remote_state) = remote_state else {
            // The call ran at once, and this is its result.
            return self.to_outcome(created.clone());
        };
        let task = Task::from_json(&remote_state, connection.era())
            .map_err(|why| self.invalid_task_error(&why))?;
        // A session of 2025-11-25 ends with its tasks.
        let outlives_session = connection.era() == ProtocolEra::Stateless;
        self.convert_to_client_task(outlives_session.then_some(task.id.as_str()));
        self.poll_until_done(RemoteTask::new(connection, &task.id, self.ctx), task, HashSet::new())
            .await
    }

    /// Resumes the task with this id, with the answers that it waits for, if it waits.
    pub(super) async fn resume_task(
        &self,
        id: &Json,
        answers: &Json,
    ) -> Result<ExecutionState, ExecuteError> {
        let link = self.wait_for_connection(ProtocolEra::Stateless).await?;
        let id = id.decode::<String>().map_err(|_| self.not_pending_error())?;
        if link.era() != ProtocolEra::Stateless {
            return Err(self.not_pending_error());
        }
        self.was_sent.store(true, std::sync::atomic::Ordering::Relaxed);
        let remote = RemoteTask::new(&link, &id, self.ctx);
        self.convert_to_client_task(Some(&id));
        let requested_keys: HashSet<String> =
            answers.members().into_iter().map(|(key, _)| key).collect();
        if !requested_keys.is_empty() {
            self.send_task_input(&remote, answers).await?;
        }
        let task = Task {
            id,
            status: TaskStatus::Working,
            status_message: None,
            poll_interval_ms: Some(0),
        };
        self.poll_until_done(remote, task, requested_keys).await
    }

    /// Error for a task that cannot be parsed.
    pub(super) fn invalid_task_error(&self, reason: &str) -> ExecuteError {
        self.invalid_answer_error(&format!("an invalid task: {reason}"))
    }

    async fn poll_until_done(
        &self,
        mut remote: RemoteTask<'_>,
        mut task: Task,
        mut requested_keys: HashSet<String>,
    ) -> Result<ExecutionState, ExecuteError> {
        let mut input_requests: Vec<RunningInputRequest<'_>> = Vec::new();
        let (mut last_state, mut poll_count) = (None, 0_u32);
        loop {
            self.report_task_status(&task, poll_count);
            match (task.status, remote.connection.era()) {
                (TaskStatus::Cancelled, _) => {
                    remote.needs_cancel = false;
                    let name = &self.supervisor.name;
                    let message = format!("the source `{name}` cancelled its task");
                    return Err(ExecuteError::maybe_sent(ErrorCode::Cancelled, message));
                }
                (TaskStatus::Working, _) => {}
                (_, ProtocolEra::Handshake) => return self.fetch_task_result(remote).await,
                (TaskStatus::InputRequired, ProtocolEra::Stateless) => {
                    if let Some(requests) = self.request_new_inputs(
                        last_state.as_ref(),
                        &mut requested_keys,
                        &mut input_requests,
                    )? {
                        return Ok(suspend_task(remote, &requests));
                    }
                }
                (TaskStatus::Completed | TaskStatus::Failed, ProtocolEra::Stateless) => {
                    remote.needs_cancel = false;
                    return self.finish_task(task.status, last_state.as_ref());
                }
            }
            let (min_interval, max_interval, default_interval) = POLL_INTERVALS;
            let wait = task
                .poll_interval_ms
                .map_or(default_interval, Duration::from_millis)
                .clamp(min_interval, max_interval);
            tokio::select! {
                () = sleep(wait) => {}
                (key, answer) = next_response(&mut input_requests), if !input_requests.is_empty() => {
                    let answers = Json::empty_object().with_member(&key, &answer?);
                    self.send_task_input(&remote, &answers).await?;
                    task.status = TaskStatus::Working;
                    continue;
                }
            }
            let state = self.fetch_task(&mut remote).await?;
            task = Task::from_json(&state, remote.connection.era())
                .map_err(|why| self.invalid_task_error(&why))?;
            if task.id != remote.task_id {
                return Err(self.invalid_task_error("it has the ID of another task"));
            }
            last_state = Some(state);
            poll_count = poll_count.saturating_add(1);
        }
    }

    /// Reports the status of the task.
    fn report_task_status(&self, server_task: &Task, poll_count: u32) {
        let line = server_task
            .status_message
            .as_deref()
            .map(|line| escape_and_truncate(line, MAX_STATUS_CHARS));
        match self.ctx.task_handle.filter(|task| task.time_limit().is_some()) {
            Some(task) => line.iter().for_each(|line| task.set_status_message(line)),
            None => self.ctx.progress.report_progress(f64::from(poll_count), None, line.as_deref()),
        }
    }

    /// Polls the task. Retries if there is no answer.
    async fn fetch_task(&self, remote: &mut RemoteTask<'_>) -> Result<Json, ExecuteError> {
        let mut missed_polls = 0;
        loop {
            let outcome = remote.call_method("tasks/get", &remote.id_params).await;
            let why = match outcome.map(RpcOutcome::into_result) {
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(error)) if error.code != error_codes::INTERNAL_ERROR => {
                    remote.needs_cancel = false;
                    return Err(self.rpc_error(error));
                }
                Ok(Err(error)) => self.rpc_error(error),
                Err(why) => mark_maybe_sent(self.delivery_error(why)),
            };
            missed_polls += 1;
            let is_http = remote.connection.http_transport().is_some();
            if missed_polls >= MAX_MISSED_POLLS || !is_http {
                return Err(why);
            }
            sleep(POLL_INTERVALS.2).await;
            if remote.connection.is_closed() {
                let link = self
                    .wait_for_connection(remote.connection.era())
                    .await
                    .map_err(mark_maybe_sent)?;
                // A session of 2025-11-25 ends with its tasks.
                if link.era() != ProtocolEra::Stateless
                    || remote.connection.era() != ProtocolEra::Stateless
                {
                    return Err(why);
                }
                remote.connection = link;
            }
        }
    }

    /// Sends new input requests of a 2026-07-28 task to the client. Returns them if the client can
    /// only be asked by ending this call.
    fn request_new_inputs<'b>(
        &'b self,
        task_state: Option<&Json>,
        requested_keys: &mut HashSet<String>,
        input_requests: &mut Vec<RunningInputRequest<'b>>,
    ) -> Result<Option<Json>, ExecuteError> {
        let requests = task_state.and_then(|state| state.get("inputRequests"));
        let Some(requests) = requests else { return Ok(None) };
        let mut new = self.parse_input_requests(&requests)?;
        new.retain(|request| requested_keys.insert(request.key.clone()));
        if requested_keys.len() > MAX_INPUT_REQUESTS {
            let why = format!("more than {MAX_INPUT_REQUESTS} input requests");
            return Err(self.invalid_answer_error(&why));
        }
        let Some(client) = self.input_channel() else {
            let is_unsupported = |request: &&InputRequest| {
                !client_supports(self.ctx.client_capabilities, &request.method)
            };
            return match new.iter().find(is_unsupported) {
                Some(unsupported) => Err(self.missing_capability(&unsupported.method)),
                None if new.is_empty() => Ok(None),
                None => Ok(Some(requests)),
            };
        };
        input_requests.extend(new.into_iter().map(|InputRequest { key, method, params }| {
            let answer =
                async move { self.request_one_input(client, &method, params.as_ref()).await };
            let answer: BoxFuture<'b, _> = Box::pin(answer);
            (key, answer)
        }));
        Ok(None)
    }

    async fn send_task_input(
        &self,
        remote: &RemoteTask<'_>,
        answers: &Json,
    ) -> Result<(), ExecuteError> {
        let params = remote.id_params.with_member("inputResponses", answers);
        let answer = remote.call_method("tasks/update", &params).await;
        let answer = answer.map_err(|why| mark_maybe_sent(self.delivery_error(why)))?;
        answer.into_result().map(drop).map_err(|error| self.rpc_error(error))
    }
}

/// Suspends the call. The task continues while the client is asked, which resumes it with another
/// call.
fn suspend_task(mut remote: RemoteTask<'_>, requests: &Json) -> ExecutionState {
    remote.needs_cancel = false;
    let resume = ResumeState::Task(Json::encode(&remote.task_id)).encode_state();
    ExecutionState::Pending(PendingReason::Input {
        input_requests: requests.clone(),
        state: resume,
    })
}

/// A lost task may have run.
pub(super) fn mark_maybe_sent(error: ExecuteError) -> ExecuteError {
    ExecuteError { dispatch: tool::executor::DispatchState::MaybeSent, ..error }
}

/// Returns the first answer that arrives.
async fn next_response(
    input_requests: &mut Vec<RunningInputRequest<'_>>,
) -> (String, Result<Json, ExecuteError>) {
    let (at, answer) = std::future::poll_fn(|cx| {
        let ready =
            input_requests.iter_mut().enumerate().find_map(|(at, (_, answer))| {
                match answer.as_mut().poll(cx) {
                    std::task::Poll::Ready(answer) => Some((at, answer)),
                    std::task::Poll::Pending => None,
                }
            });
        ready.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
    })
    .await;
    let (key, _) = input_requests.remove(at);
    (key, answer)
}
