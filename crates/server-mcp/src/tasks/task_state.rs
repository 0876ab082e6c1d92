//! State of one task and its form on the wire: status, pending input requests, result and
//! listeners.

use std::collections::BTreeMap;
use std::sync::Weak;

use mcp::tasks::{TASK_NOTIFICATION, TaskStatus};
use mcp::{RpcError, encode, sse};
use tokio::sync::oneshot;
use tool::{CallId, Json, SourceName, WallTime};

use super::task_store::TASK_TTL;
use crate::event_sink::EventSink;
use crate::resource_subscriptions::with_subscription_id;

/// Polling interval for clients, in milliseconds.
const POLL_INTERVAL_MS: u64 = 1_000;

/// Mutable state of a task.
#[derive(Debug, Default)]
pub(super) struct TaskState {
    /// The task id and the call id, once the call is a task.
    pub(super) ids: Option<(String, CallId)>,
    pub(super) source: Option<SourceName>,
    pub(super) created_at: u64,
    pub(super) updated_at: u64,
    pub(super) status_message: Option<String>,
    pub(super) input_counter: u64,
    pub(super) pending_inputs: BTreeMap<String, (Json, oneshot::Sender<Json>)>,
    pub(super) result: Option<TaskResult>,
    /// Whether the client has fetched the result.
    pub(super) was_fetched: bool,
    pub(super) listeners: Vec<(Weak<EventSink>, Json)>,
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
        let id = self.ids.as_ref().map_or("", |(id, _)| id);
        let ttl = u64::try_from(TASK_TTL.as_millis()).unwrap_or(u64::MAX);
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
                let open = open.fold(Json::empty_object(), |all, (key, (request, _))| {
                    all.with_member(key, request)
                });
                members.push(("inputRequests", open));
            }
        }
        object_of(&members)
    }

    /// Removes listeners whose streams are closed.
    pub(super) fn remove_closed_listeners(&mut self) {
        self.listeners.retain(|(sink, _)| sink.upgrade().is_some_and(|sink| !sink.is_closed()));
    }

    /// Sends the current state to all listeners.
    pub(super) fn notify_listeners(&mut self) {
        self.remove_closed_listeners();
        if self.listeners.is_empty() {
            return;
        }
        let message = self.full_members();
        for (sink, id) in &self.listeners {
            sink.upgrade()
                .inspect(|sink| sink.send_notification(status_notification(&message, id)));
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
