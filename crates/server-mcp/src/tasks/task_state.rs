//! State of one task and its form on the wire: status, pending input requests, result and
//! listeners.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use mcp::tasks::{TASK_NOTIFICATION, TaskStatus};
use mcp::{RpcError, encode, sse};
use tokio::sync::oneshot;
use tool::clock::duration_millis;
use tool::{CallId, Json, SourceName, WallTime};

use super::stored_task::TaskContinuation;
use super::task_store::TASK_TTL;
use crate::event_sink::EventSink;
use crate::resource_subscriptions::with_subscription_id;

/// Polling interval for clients, in milliseconds.
const POLL_INTERVAL_MS: u64 = 1_000;

/// The ids of a call that is a task.
#[derive(Debug, Clone)]
pub(super) struct TaskIds {
    /// The sealed id, as its client knows it.
    pub(super) task: String,
    pub(super) call: CallId,
}

/// An input request that the client has not answered.
#[derive(Debug)]
pub(super) struct PendingInput {
    pub(super) request: Json,
    pub(super) response_sender: oneshot::Sender<Json>,
}

/// A stream that receives the states of a task.
#[derive(Debug)]
pub(super) struct TaskListener {
    pub(super) event_sink: Weak<EventSink>,
    pub(super) subscription_id: Json,
}

/// Mutable state of a task.
#[derive(Debug, Default)]
pub(super) struct TaskState {
    /// Set once the call is a task.
    pub(super) ids: Option<TaskIds>,
    pub(super) source: Option<SourceName>,
    pub(super) created_at: u64,
    pub(super) updated_at: u64,
    pub(super) status_message: Option<String>,
    pub(super) input_counter: u64,
    pub(super) pending_inputs: BTreeMap<String, PendingInput>,
    pub(super) result: Option<TaskResult>,
    /// Whether the client has fetched the result.
    pub(super) was_fetched: bool,
    /// What a later process needs to continue the call.
    pub(super) continuation: Option<TaskContinuation>,
    /// Whether the call ran in an earlier process and was not continued in this one.
    pub(super) is_dormant: bool,
    /// Whether the call ends with this process, and a later one continues it.
    pub(super) is_suspended: bool,
    pub(super) listeners: Vec<TaskListener>,
}

/// Result of a task that has ended.
#[derive(Debug)]
pub(super) enum TaskResult {
    Completed(Json),
    Failed(RpcError),
    Cancelled,
}

impl TaskState {
    fn task_status(&self) -> TaskStatus {
        match &self.result {
            Some(TaskResult::Completed(_)) => TaskStatus::Completed,
            Some(TaskResult::Failed(_)) => TaskStatus::Failed,
            Some(TaskResult::Cancelled) => TaskStatus::Cancelled,
            None if !self.pending_inputs.is_empty() => TaskStatus::InputRequired,
            None => TaskStatus::Working,
        }
    }

    /// The members of every message about a task.
    pub(super) fn base_members(&self) -> Vec<(&'static str, Json)> {
        let id = self.ids.as_ref().map_or("", |ids| ids.task.as_str());
        let ttl = duration_millis(TASK_TTL);
        let mut members = vec![
            ("taskId", Json::encode(id)),
            ("status", Json::encode(self.task_status().as_str())),
            ("createdAt", Json::encode(&WallTime(self.created_at).to_string())),
            ("lastUpdatedAt", Json::encode(&WallTime(self.updated_at).to_string())),
            ("ttlMs", Json::encode(&ttl)),
            ("pollIntervalMs", Json::encode(&POLL_INTERVAL_MS)),
        ];
        members
            .extend(self.status_message.as_ref().map(|line| ("statusMessage", Json::encode(line))));
        members
    }

    /// The members with result, error or pending input requests.
    pub(super) fn full_members(&self) -> Json {
        let mut members = self.base_members();
        match &self.result {
            Some(TaskResult::Completed(result)) => members.push(("result", result.clone())),
            Some(TaskResult::Failed(error)) => members.push(("error", error_to_json(error))),
            Some(TaskResult::Cancelled) => {}
            None if self.pending_inputs.is_empty() => {}
            None => {
                let open = self.pending_inputs.iter();
                let open = open.fold(Json::empty_object(), |all, (key, input)| {
                    all.with_member(key, &input.request)
                });
                members.push(("inputRequests", open));
            }
        }
        object_of(&members)
    }

    /// Removes listeners whose streams are closed.
    pub(super) fn remove_closed_listeners(&mut self) {
        let is_open = |sink: Arc<EventSink>| !sink.is_closed();
        self.listeners.retain(|listener| listener.event_sink.upgrade().is_some_and(is_open));
    }

    /// Sends the current state to all listeners.
    pub(super) fn notify_listeners(&mut self) {
        self.remove_closed_listeners();
        if self.listeners.is_empty() {
            return;
        }
        let message = self.full_members();
        for TaskListener { event_sink, subscription_id } in &self.listeners {
            if let Some(sink) = event_sink.upgrade() {
                sink.send_notification(status_notification(&message, subscription_id));
            }
        }
    }
}

pub(super) fn object_of(members: &[(&'static str, Json)]) -> Json {
    Json::object_from(members.iter().map(|(key, value)| (*key, value)))
}

pub(super) fn status_notification(message: &Json, id: &Json) -> bytes::Bytes {
    sse::encode_event(&encode::encode_notification(
        TASK_NOTIFICATION,
        &with_subscription_id(message, id),
    ))
}

fn error_to_json(error: &RpcError) -> Json {
    let mut members =
        vec![("code", Json::encode(&error.code)), ("message", Json::encode(&error.message))];
    members.extend(error.data.clone().map(|data| ("data", data)));
    object_of(&members)
}
