//! One task at its server: polled, answered, and cancelled when no caller waits for it.

use std::sync::Arc;
use std::time::Duration;

use ::mcp::tasks;
use tokio::time::timeout;
use tool::Json;
use tool::executor::ClientCapabilities;

use crate::connection::{DeliveryError, McpConnection};
use crate::in_flight_request::RpcOutcome;
use crate::input_requests::forwarded_capabilities;
use crate::outgoing_request::OutgoingRequest;

/// Time limit of a request about a task.
const TASK_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for cancelling a task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Task at its server. If it is dropped before its end, it is cancelled there.
pub(super) struct RemoteTask {
    pub(super) connection: Arc<McpConnection>,
    pub(super) task_id: String,
    /// Params that identify the task.
    pub(super) id_params: Json,
    client_capabilities: Json,
    /// Whether the server must be notified when the task is dropped.
    pub(super) needs_cancel: bool,
}

impl RemoteTask {
    pub(super) fn new(
        connection: &Arc<McpConnection>,
        id: &str,
        client: &ClientCapabilities,
    ) -> Self {
        let params = Json::object_from([("taskId", &Json::encode(id))]);
        let can = tasks::declare_in(&forwarded_capabilities(client, connection.extensions()));
        Self {
            connection: Arc::clone(connection),
            task_id: id.to_owned(),
            id_params: params,
            client_capabilities: can,
            needs_cancel: true,
        }
    }

    fn build_request<'a>(&self, method: &'a str, params: &'a Json) -> OutgoingRequest<'a> {
        OutgoingRequest {
            client_capabilities: self.client_capabilities.clone(),
            ..OutgoingRequest::internal(method, params)
        }
    }

    pub(super) async fn call_method(
        &self,
        method: &str,
        params: &Json,
    ) -> Result<RpcOutcome, DeliveryError> {
        let request = self.build_request(method, params);
        timeout(TASK_REQUEST_TIMEOUT, self.connection.send_request(&request))
            .await
            .unwrap_or(Err(DeliveryError::ConnectionLost))
    }
}

impl Drop for RemoteTask {
    fn drop(&mut self) {
        let cancels = self
            .connection
            .negotiated()
            .capabilities
            .tasks
            .is_some_and(|tasks| tasks.supports_cancel);
        let running = tokio::runtime::Handle::try_current().is_ok();
        if !self.needs_cancel || !cancels || self.connection.is_closed() || !running {
            return;
        }
        let (link, params, can) = (
            Arc::clone(&self.connection),
            self.id_params.clone(),
            self.client_capabilities.clone(),
        );
        drop(self.connection.context.tasks.spawn(async move {
            let request = OutgoingRequest {
                client_capabilities: can,
                ..OutgoingRequest::internal("tasks/cancel", &params)
            };
            let result = timeout(CANCEL_TIMEOUT, link.send_request(&request)).await;
            tracing::debug!(acknowledged = result.is_ok(), "cancelled a task at the server");
        }));
    }
}
