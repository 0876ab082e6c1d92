//! One call as a task: creation, input requests, result and listeners.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use mcp::{ProtocolEra, RequestId, RpcError, RpcMessage, error_codes};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tool::call_outcome::CallStatus;
use tool::executor::{ClientCapabilities, ClientRequestError, ClientRequester};
use tool::{BoxFuture, Clock, Json, JsonLimits, SourceName, ToolCall, WallTime};

use super::stored_task::TaskRights;
use super::task_state::{
    PendingInput, TaskIds, TaskListener, TaskResult, TaskState, object_of, status_notification,
};
use super::task_store::{MAX_TASK_DURATION, TASK_TTL, TaskOwner, TaskStore};
use crate::client_capabilities;
use crate::event_sink::EventSink;
use crate::result_encoding::{EncodedResult, ResultEncoder};

/// Maximum number of pending input requests.
const MAX_PENDING_INPUTS: usize = 64;
/// Maximum bytes of one input request.
const MAX_INPUT_REQUEST_BYTES: usize = 64 << 10;
/// Maximum characters of a status message.
const MAX_STATUS_CHARS: usize = 512;
/// Maximum number of streams that listen to one task.
const MAX_LISTENERS: usize = 8;

/// A call that can become a task, or already is one.
#[derive(Debug)]
pub(crate) struct CallTask {
    pub(super) weak_self: Weak<Self>,
    pub(super) store: TaskStore,
    pub(super) owner: TaskOwner,
    pub(super) root_key: Box<str>,
    /// The rights with which the call continues in a later process; `None` in that process.
    pub(super) rights: Option<TaskRights>,
    pub(super) capabilities: OnceLock<ClientCapabilities>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) created: Notify,
    /// Notifies that the source has taken up a call of an earlier process.
    pub(super) continued: Notify,
    /// Bytes of the result and of the pending input requests.
    pub(super) stored_bytes: AtomicUsize,
    pub(super) state: Mutex<TaskState>,
    /// Cancels the underlying call.
    pub(super) cancel: CancellationToken,
}

impl CallTask {
    pub(super) fn new(
        store: TaskStore,
        (owner, root_key): (TaskOwner, Box<str>),
        rights: TaskRights,
        capabilities: ClientCapabilities,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            weak_self: Weak::clone(me),
            store,
            owner,
            root_key,
            rights: Some(rights),
            capabilities: OnceLock::from(capabilities),
            clock,
            created: Notify::new(),
            continued: Notify::new(),
            stored_bytes: AtomicUsize::new(0),
            state: Mutex::default(),
            cancel: CancellationToken::new(),
        })
    }

    pub(super) fn lock_state(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and notifies the listeners.
    fn change_state<T>(&self, change: impl FnOnce(&mut TaskState) -> T) -> T {
        let now = self.clock.wall_now();
        let mut state = self.lock_state();
        let changed = change(&mut state);
        state.updated_at = now.0.max(state.created_at);
        state.notify_listeners();
        changed
    }

    /// Whether both tasks belong to the same root key.
    pub(super) fn has_same_owner(&self, other: &Self) -> bool {
        self.root_key == other.root_key
    }

    /// Whether the task runs at this source.
    pub(super) fn runs_at_source(&self, source: Option<&SourceName>) -> bool {
        let state = self.lock_state();
        state.result.is_none() && state.source.as_ref() == source
    }

    pub(super) fn source(&self) -> Option<SourceName> {
        self.lock_state().source.clone()
    }

    pub(super) fn stored_bytes(&self) -> usize {
        self.stored_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn is_expired(&self, now: WallTime) -> bool {
        Duration::from_millis(now.0.saturating_sub(self.lock_state().created_at)) >= TASK_TTL
    }

    /// Whether the task has ended and its client has fetched the result.
    pub(super) fn was_fetched(&self) -> bool {
        self.lock_state().was_fetched
    }

    /// Whether the call has become a task.
    pub(crate) fn is_created(&self) -> bool {
        self.lock_state().ids.is_some()
    }

    /// Resolves when the call has become a task.
    pub(super) async fn wait_created(&self) {
        self.created.notified().await;
    }

    /// The remaining time for which the task is kept.
    pub(super) fn remaining_ttl(&self) -> Duration {
        let age = self.clock.wall_now().0.saturating_sub(self.lock_state().created_at);
        TASK_TTL.saturating_sub(Duration::from_millis(age))
    }

    /// Removes the task from the store.
    pub(super) fn remove_from_store(&self) {
        let call = self.lock_state().ids.as_ref().map(|ids| ids.call);
        if let Some(call) = call {
            self.store.remove_task(call);
        }
    }

    /// The response to the request that became this task.
    pub(super) fn creation_result(&self, id: &RequestId) -> EncodedResult {
        let mut members = self.lock_state().base_members();
        members.insert(0, ("resultType", Json::encode("task")));
        let encoder = ResultEncoder::plain(ProtocolEra::Stateless, id);
        encoder.encode_result(&object_of(&members))
    }

    /// The state of the task, for `tasks/get`, and whether it is the first one with a result.
    pub(super) fn status_result(&self) -> (Json, bool) {
        let mut state = self.lock_state();
        let is_first_fetch = state.result.is_some() && !state.was_fetched;
        state.was_fetched |= is_first_fetch;
        (state.full_members(), is_first_fetch)
    }

    /// Whether the task accepts another listener.
    pub(super) fn accepts_listener(&self) -> bool {
        let mut state = self.lock_state();
        state.remove_closed_listeners();
        state.listeners.len() < MAX_LISTENERS
    }

    /// Sends the state to `sink`, now and after each change.
    pub(crate) fn add_listener(&self, sink: &Arc<EventSink>, id: &Json) {
        let mut state = self.lock_state();
        sink.send_notification(status_notification(&state.full_members(), id));
        if state.listeners.len() < MAX_LISTENERS {
            let (event_sink, subscription_id) = (Arc::downgrade(sink), id.clone());
            state.listeners.push(TaskListener { event_sink, subscription_id });
        }
    }

    /// Resolves pending input requests. Responses to others are ignored.
    pub(super) fn resolve_inputs(&self, answers: Vec<(String, Json)>) {
        let open = self.change_state(|state| {
            let take_input = |(key, answer)| Some((state.pending_inputs.remove(&key)?, answer));
            answers.into_iter().filter_map(take_input).collect::<Vec<_>>()
        });
        for (input, answer) in open {
            // The receiver is gone if the call has just ended.
            drop(input.response_sender.send(answer));
        }
    }

    /// Stores the end of the call with its response. Returns false if a later process continues it.
    pub(super) fn finish_call(&self, answer: EncodedResult, status: CallStatus) -> bool {
        self.continued.notify_one();
        if status == CallStatus::Cancelled && self.lock_state().is_suspended {
            return false;
        }
        if let Some(continuation) = self.lock_state().continuation.take() {
            self.stored_bytes.fetch_sub(continuation.size_bytes(), Ordering::Relaxed);
        }
        let end =
            match (status, RpcMessage::parse(answer.body.concat_parts(), JsonLimits::DOCUMENT)) {
                (CallStatus::Cancelled, _) => TaskResult::Cancelled,
                (_, Ok(RpcMessage::Response(response))) => match response.result {
                    Ok(result) => self.store_result(result),
                    Err(error) => TaskResult::Failed(self.explain_failure(error)),
                },
                _ => TaskResult::Failed(internal_error("cannot parse the result of the call")),
            };
        self.change_state(|state| {
            state.pending_inputs.clear();
            state.status_message = match &end {
                TaskResult::Failed(error) => Some(truncate_line(&error.message)),
                TaskResult::Completed(_) | TaskResult::Cancelled => None,
            };
            state.result = Some(end);
        });
        true
    }

    fn store_result(&self, result: Json) -> TaskResult {
        let kind = result.get("resultType").and_then(|kind| kind.decode::<String>().ok());
        let bytes = result.bytes().len();
        if kind.is_some_and(|kind| kind != "complete") {
            return TaskResult::Failed(internal_error(
                "the call ended with an input request that the task cannot store",
            ));
        }
        if !self.store.reserve_result_bytes(self, bytes) {
            let message = format!(
                "the tool ran, but its result of {bytes} bytes cannot be stored: the results of \
                 other tasks use the limit of this key or of all keys; fetch the results of ended \
                 tasks"
            );
            return TaskResult::Failed(internal_error(&message));
        }
        self.stored_bytes.fetch_add(bytes, Ordering::Relaxed);
        TaskResult::Completed(result)
    }

    async fn request_input(&self, method: &str, params: Json) -> Result<Json, ClientRequestError> {
        let bytes = params.bytes().len();
        let can = self.capabilities.get();
        let is_allowed = can
            .is_some_and(|can| client_capabilities::supports_request(can, method, &params))
            && bytes <= MAX_INPUT_REQUEST_BYTES;
        if !is_allowed || !self.store.reserve_result_bytes(self, bytes) {
            return Err(ClientRequestError::Unavailable);
        }
        let (response_sender, answer) = oneshot::channel();
        let request = Json::object_from([("method", &Json::encode(method)), ("params", &params)]);
        let input = PendingInput { request, response_sender };
        let key = self.change_state(|state| {
            if state.pending_inputs.len() >= MAX_PENDING_INPUTS || state.result.is_some() {
                return None;
            }
            state.input_counter += 1;
            let key = format!("q{}", state.input_counter);
            state.pending_inputs.insert(key.clone(), input);
            Some(key)
        });
        let guard = InputRequestGuard {
            task: self,
            key: key.ok_or(ClientRequestError::Unavailable)?,
            bytes,
        };
        self.stored_bytes.fetch_add(bytes, Ordering::Relaxed);
        let result = answer.await.map_err(|_| ClientRequestError::Unavailable);
        drop(guard);
        result
    }
}

fn truncate_line(line: &str) -> String {
    line.chars().take(MAX_STATUS_CHARS).collect()
}

fn internal_error(message: &str) -> RpcError {
    RpcError::new(error_codes::INTERNAL_ERROR, message)
}

/// A pending input request. Dropping it withdraws the request.
struct InputRequestGuard<'a> {
    task: &'a CallTask,
    key: String,
    bytes: usize,
}

impl Drop for InputRequestGuard<'_> {
    fn drop(&mut self) {
        self.task.stored_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        let is_open = self.task.lock_state().pending_inputs.contains_key(&self.key);
        if is_open {
            self.task.change_state(|state| state.pending_inputs.remove(&self.key));
        }
    }
}

impl ClientRequester for CallTask {
    fn send_request<'a>(
        &'a self,
        method: &'a str,
        params: Json,
    ) -> BoxFuture<'a, Result<Json, ClientRequestError>> {
        Box::pin(self.request_input(method, params))
    }
}

impl tool::executor::TaskHandle for CallTask {
    fn promote_to_task(&self, call: &ToolCall, continuation: Option<Bytes>) -> bool {
        if self.lock_state().ids.is_some() {
            self.continued.notify_one();
            return true;
        }
        let (Some(me), now) = (self.weak_self.upgrade(), self.clock.wall_now()) else {
            return false;
        };
        let Some(id) = self.store.seal_task_id(&self.owner, call.id) else { return false };
        let continuation = self.new_continuation(call, continuation);
        {
            let mut state = self.lock_state();
            (state.created_at, state.updated_at) = (now.0, now.0);
            state.ids = Some(TaskIds { task: id, call: call.id });
            state.source = Some(call.tool_key.source.clone());
            state.continuation = continuation;
        }
        let is_stored = self.store.try_insert(call.id, me, now);
        if is_stored {
            self.created.notify_one();
        } else {
            self.lock_state().ids = None;
        }
        is_stored
    }

    fn is_suspended(&self) -> bool {
        self.lock_state().is_suspended
    }

    fn time_limit(&self) -> Option<Duration> {
        self.lock_state().ids.is_some().then_some(MAX_TASK_DURATION)
    }

    fn set_status_message(&self, line: &str) {
        let line = truncate_line(line);
        let same = self.lock_state().status_message.as_ref() == Some(&line);
        if !same {
            self.change_state(|state| state.status_message = Some(line));
        }
    }
}
