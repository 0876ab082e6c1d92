//! One task at its server: polled, answered, and cancelled when no caller waits for it.

use std::sync::Arc;
use std::time::Duration;

use ::mcp::tasks;
use tokio::time::timeout;
use tool::executor::TaskHandle;
use tool::{CallContext, Json};

use crate::connection::{DeliveryError, McpConnection};
use crate::in_flight_request::RpcOutcome;
use crate::input_requests::forwarded_capabilities;
use crate::outgoing_request::OutgoingRequest;

/// Time limit of a request about a task.
const TASK_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for cancelling a task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Task at its server. If it is dropped before its end, it is cancelled there, unless a later process
/// continues it.
pub(super) struct RemoteTask<'a> {
    pub(super) connection: Arc<McpConnection>,
    pub(super) task_id: String,
    /// Params that identify the task.
    pub(super) id_params: Json,
    client_capabilities: Json,
    /// Task of the client that follows this one.
    client_task: Option<&'a dyn TaskHandle>,
    /// Whether the server must be notified when the task is dropped.
    pub(super) needs_cancel: bool,
}

impl<'a> RemoteTask<'a> {
    pub(super) fn new(connection: &Arc<McpConnection>, id: &str, ctx: &'a CallContext<'a>) -> Self {
        let params = Json::object_from([("taskId", &Json::encode(id))]);
        let declared = forwarded_capabilities(ctx.client_capabilities, connection.extensions());
        let can = tasks::declare_in(&declared);
        Self {
            connection: Arc::clone(connection),
            task_id: id.to_owned(),
            id_params: params,
            client_capabilities: can,
            client_task: ctx.task_handle,
            needs_cancel: true,
        }
    }

    fn build_request<'b>(&self, method: &'b str, params: &'b Json) -> OutgoingRequest<'b> {
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

impl Drop for RemoteTask<'_> {
    fn drop(&mut self) {
        let cancels = self
            .connection
            .negotiated()
            .capabilities
            .tasks
            .is_some_and(|tasks| tasks.supports_cancel);
        let running = tokio::runtime::Handle::try_current().is_ok();
        let is_suspended = self.client_task.is_some_and(TaskHandle::is_suspended);
        if !self.needs_cancel || is_suspended || !cancels || self.connection.is_closed() || !running
        {
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
