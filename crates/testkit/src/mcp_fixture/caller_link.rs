//! Messages from a running call to its client before the result.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::event_stream::EventSender;
use super::json_rpc::{FixtureRequest, RpcError, notification_message};
use super::session::FixtureSession;

/// The log levels, from the lowest.
pub(super) const LOG_LEVELS: &[&str] =
    &["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Timeout for answers of a person or a model.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);

/// The connection of one call to its client.
#[derive(Debug, Clone, Default)]
pub(super) struct CallerLink {
    event_sender: Option<EventSender>,
    progress_token: Option<Value>,
    /// The minimum log level that the client requested; no logs without one.
    log_level: Option<usize>,
    /// The session for requests to the client, if that is possible.
    pub(super) session: Option<Arc<FixtureSession>>,
}

impl CallerLink {
    /// The connection of a request without a session.
    pub(super) fn for_modern(out: Option<EventSender>, request: &FixtureRequest) -> Self {
        let level = request.meta_member("io.modelcontextprotocol/logLevel").and_then(Value::as_str);
        let level = level.and_then(|wanted| LOG_LEVELS.iter().position(|level| *level == wanted));
        Self {
            event_sender: out,
            progress_token: request.meta_member("progressToken").cloned(),
            log_level: level,
            session: None,
        }
    }

    /// The connection of a request in a session.
    pub(super) fn for_legacy(
        out: EventSender,
        request: &FixtureRequest,
        session: Arc<FixtureSession>,
    ) -> Self {
        let token = request.meta_member("progressToken").cloned();
        Self {
            event_sender: Some(out),
            progress_token: token,
            log_level: Some(session.log_level()),
            session: Some(session),
        }
    }

    async fn send_notification(&self, method: &str, params: &Value) {
        if let Some(out) = &self.event_sender {
            out.send_message(&notification_message(method, params)).await;
        }
    }

    /// Reports progress, if the client requested it.
    pub(super) async fn report_progress(&self, progress: f64, total: f64, message: &str) {
        let Some(token) = &self.progress_token else { return };
        let params = json!({ "progressToken": token, "progress": progress, "total": total,
            "message": message });
        self.send_notification("notifications/progress", &params).await;
    }

    /// Logs at `info`, if the client requested that level.
    pub(super) async fn log_info(&self, data: &str) {
        if self.log_level.is_some_and(|level| level <= 1) {
            let params = json!({ "level": "info", "logger": "mcp-fixture", "data": data });
            self.send_notification("notifications/message", &params).await;
        }
    }

    /// Sends a request to the client and waits for its answer.
    pub(super) async fn request_input(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<Value, RpcError> {
        let (Some(out), Some(session)) = (&self.event_sender, &self.session) else {
            return Err(RpcError::new(-32603, "there is nobody to ask"));
        };
        let (id, answer) = session.expect_answer();
        out.send_message(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }),
        )
        .await;
        let answer = timeout(ANSWER_TIMEOUT, answer).await;
        session.forget_answer(&id);
        let Ok(Ok(mut answer)) = answer else {
            return Err(RpcError::new(-32603, format!("no answer to `{method}`")));
        };
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(RpcError::new(-32603, format!("`{method}` failed: {}", answer["error"]))),
        }
    }
}
