//! Sanitized progress, client requests and task messages of a running call.

use std::time::Duration;

use bytes::Bytes;
use tool::executor::{ClientRequestError, ClientRequester, ProgressSink, TaskHandle};
use tool::{BoxFuture, Json, ToolCall};

use super::{sanitize_json, sanitize_text};

/// Sanitizes progress and client requests of one call on their way to the client.
pub(crate) struct SanitizedChannel<'a> {
    pub(crate) progress: &'a dyn ProgressSink,
    pub(crate) client_requests: Option<&'a dyn ClientRequester>,
    pub(crate) task_handle: Option<&'a dyn TaskHandle>,
}

impl ProgressSink for SanitizedChannel<'_> {
    fn report_progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let message = message.map(sanitize_text);
        self.progress.report_progress(done, total, message.as_deref());
    }

    fn has_listener(&self) -> bool {
        self.progress.has_listener()
    }

    fn forward_notification(&self, method: &str, params: &Json) {
        self.progress.forward_notification(method, &sanitize_json(params.clone()));
    }
}

impl ClientRequester for SanitizedChannel<'_> {
    fn send_request<'a>(
        &'a self,
        method: &'a str,
        params: Json,
    ) -> BoxFuture<'a, Result<Json, ClientRequestError>> {
        let held = self.task_handle.filter(|task| task.time_limit().is_some());
        match held.map(|task| task as &dyn ClientRequester).or(self.client_requests) {
            Some(ask) => ask.send_request(method, sanitize_json(params)),
            None => Box::pin(std::future::ready(Err(ClientRequestError::Unavailable))),
        }
    }
}

impl TaskHandle for SanitizedChannel<'_> {
    fn promote_to_task(&self, call: &ToolCall, continuation: Option<Bytes>) -> bool {
        self.task_handle.is_some_and(|task| task.promote_to_task(call, continuation))
    }

    fn is_suspended(&self) -> bool {
        self.task_handle.is_some_and(TaskHandle::is_suspended)
    }

    fn time_limit(&self) -> Option<Duration> {
        self.task_handle.and_then(TaskHandle::time_limit)
    }

    fn set_status_message(&self, line: &str) {
        if let Some(task) = self.task_handle {
            task.set_status_message(&sanitize_text(line));
        }
    }
}
