//! Messages from a running call to its client before the result.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::rpc::{Fault, Request, notification};
use super::session::Session;
use super::stream::Sender;

/// The log levels, from the lowest.
pub(super) const LEVELS: &[&str] =
    &["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Timeout for answers of a person or a model.
const PATIENCE: Duration = Duration::from_mins(2);

/// The connection of one call to its client.
#[derive(Debug, Clone, Default)]
pub(super) struct Link {
    out: Option<Sender>,
    token: Option<Value>,
    /// The minimum log level that the client requested; no logs without one.
    level: Option<usize>,
    /// The session for requests to the client, if that is possible.
    pub(super) session: Option<Arc<Session>>,
}

impl Link {
    /// The connection of a request without a session.
    pub(super) fn modern(out: Option<Sender>, request: &Request) -> Self {
        let level = request.meta("io.modelcontextprotocol/logLevel").and_then(Value::as_str);
        let level = level.and_then(|wanted| LEVELS.iter().position(|level| *level == wanted));
        Self { out, token: request.meta("progressToken").cloned(), level, session: None }
    }

    /// The connection of a request in a session.
    pub(super) fn legacy(out: Sender, request: &Request, session: Arc<Session>) -> Self {
        let token = request.meta("progressToken").cloned();
        Self { out: Some(out), token, level: Some(session.level()), session: Some(session) }
    }

    async fn send(&self, method: &str, params: &Value) {
        if let Some(out) = &self.out {
            out.message(&notification(method, params)).await;
        }
    }

    /// Reports progress, if the client requested it.
    pub(super) async fn progress(&self, progress: f64, total: f64, message: &str) {
        let Some(token) = &self.token else { return };
        let params = json!({ "progressToken": token, "progress": progress, "total": total,
            "message": message });
        self.send("notifications/progress", &params).await;
    }

    /// Logs at `info`, if the client requested that level.
    pub(super) async fn info(&self, data: &str) {
        if self.level.is_some_and(|level| level <= 1) {
            let params = json!({ "level": "info", "logger": "mcp-fixture", "data": data });
            self.send("notifications/message", &params).await;
        }
    }

    /// Sends a request to the client and waits for its answer.
    pub(super) async fn ask(&self, method: &str, params: &Value) -> Result<Value, Fault> {
        let (Some(out), Some(session)) = (&self.out, &self.session) else {
            return Err(Fault::new(-32603, "there is nobody to ask"));
        };
        let (id, answer) = session.expect();
        out.message(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        let answer = timeout(PATIENCE, answer).await;
        session.forget(&id);
        let Ok(Ok(mut answer)) = answer else {
            return Err(Fault::new(-32603, format!("no answer to `{method}`")));
        };
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(Fault::new(-32603, format!("`{method}` failed: {}", answer["error"]))),
        }
    }
}
