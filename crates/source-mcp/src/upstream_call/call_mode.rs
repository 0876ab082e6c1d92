//! Mode of a call, plain or as a task: chosen from the capabilities of the server, the tool and the
//! client.
//!
//! In 2026-07-28 the server decides what becomes a task, in 2025-11-25 the caller.

use ::mcp::tasks;
use ::mcp::{ProtocolEra, error_codes};
use tool::executor::UpstreamRpcError;
use tool::{ErrorCode, ExecuteError, Json};

use super::{CallSpec, UpstreamCall};
use crate::connection::McpConnection;
use crate::outgoing_request::OutgoingRequest;
use crate::tool_executor::TaskSupport;

/// Requested lifetime of a task of 2025-11-25, in milliseconds.
const TASK_TTL_MS: u64 = 3_600_000;

/// Mode in which a call is sent to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallMode {
    /// As a plain call.
    Direct,
    /// As a task, or as a call that the server may turn into one.
    Task,
    /// As a plain call that becomes a task of the client if it takes long.
    TaskIfSlow,
}

impl UpstreamCall<'_> {
    /// Whether this client must declare the tasks extension itself.
    fn requires_declared_tasks(&self) -> bool {
        self.ctx.client_capabilities.is_single_source
            && self.ctx.task_handle.is_none()
            && self.client_era() == ProtocolEra::Stateless
    }

    /// Chooses the mode of the call and sets the request accordingly.
    pub(super) fn choose_mode(
        &self,
        spec: &CallSpec<'_>,
        connection: &McpConnection,
        request: &mut OutgoingRequest<'_>,
    ) -> Result<CallMode, ExecuteError> {
        let supports_tasks = || connection.negotiated().capabilities.tasks.is_some();
        match (connection.era(), spec.task_support) {
            _ if spec.method != "tools/call" => Ok(CallMode::Direct),
            (ProtocolEra::Stateless, _) => {
                if self.ctx.task_handle.is_some() && supports_tasks() {
                    declare_tasks(request);
                }
                Ok(CallMode::Task)
            }
            // Before 2026-07-28 the tool's declaration counts, if the server supports tasks.
            (ProtocolEra::Handshake, TaskSupport::Required) if supports_tasks() => {
                if self.requires_declared_tasks() {
                    return Err(self.missing_tasks_error());
                }
                request.task_params =
                    Some(Json::object_from([("ttl", &Json::encode(&TASK_TTL_MS))]));
                Ok(CallMode::Task)
            }
            (ProtocolEra::Handshake, TaskSupport::Optional)
                if self.ctx.task_handle.is_some() && supports_tasks() =>
            {
                Ok(CallMode::TaskIfSlow)
            }
            (ProtocolEra::Handshake, _) => Ok(CallMode::Direct),
        }
    }

    /// Declares tasks if the server requires it, and returns whether it did. The call has not
    /// begun.
    pub(super) fn declare_tasks_if_required(
        &self,
        error: &ExecuteError,
        request: &mut OutgoingRequest<'_>,
    ) -> bool {
        let is_required = error.rpc_error.as_deref().is_some_and(|rpc| {
            rpc.code == error_codes::MISSING_CAPABILITY
                && rpc.data.as_ref().is_some_and(tasks::is_missing_extension)
        });
        let is_declared =
            tasks::is_declared(request.client_capabilities.get("extensions").as_ref());
        let declares = is_required && !is_declared && !self.requires_declared_tasks();
        if declares {
            declare_tasks(request);
        }
        declares
    }

    /// Error for a client that must declare the tasks extension.
    fn missing_tasks_error(&self) -> ExecuteError {
        let name = &self.supervisor.name;
        let message = format!(
            "this tool of the source `{name}` runs as a task; declare the extension `{}`",
            tasks::TASKS_EXTENSION
        );
        let data = Some(tasks::missing_extension_data());
        let rpc = UpstreamRpcError {
            code: error_codes::MISSING_CAPABILITY,
            message: message.clone(),
            data,
        };
        let error = ExecuteError::not_sent(ErrorCode::UpstreamFailed, message);
        ExecuteError { rpc_error: Some(Box::new(rpc)), ..error }
    }
}

/// Declares that the client supports tasks.
fn declare_tasks(request: &mut OutgoingRequest<'_>) {
    request.client_capabilities = tasks::declare_in(&request.client_capabilities);
}
