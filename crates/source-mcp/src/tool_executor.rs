//! Executes one tool call on its server.

use std::sync::Arc;

use ::mcp::headers::ArgumentHeaders;
use tool::{
    BoxFuture, CallContext, ErrorCode, ExecuteError, ExecutionState, Executor, Json, RecordedCall,
};

use super::outgoing_request::RequestParams;
use super::server_supervisor::ServerSupervisor;
use super::upstream_call::{CallSpec, UpstreamCall};

/// Executor of one tool. Looks up the connection at each call, so that it can outlive it.
#[derive(Debug)]
pub(super) struct McpToolExecutor {
    supervisor: Arc<ServerSupervisor>,
    /// Server's own name of the tool, as JSON.
    upstream_name: Json,
    /// `None` if the header annotations are invalid, which matters in one era only.
    argument_headers: Option<ArgumentHeaders>,
    task_support: TaskSupport,
    /// The definition as received, with which a tool was listed whose server starts with its first call.
    definition: Option<Box<str>>,
}

/// Whether a tool of 2025-11-25 can be called as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskSupport {
    /// Never as a task.
    Forbidden,
    /// Possible as a task, since it may take long.
    Optional,
    /// Only as a task.
    Required,
}

impl TaskSupport {
    /// Reads the task support from a tool definition.
    pub(super) fn from_definition(definition: &Json) -> Self {
        let task_support = definition.get("execution").and_then(|said| said.get("taskSupport"));
        match task_support.as_ref().map(Json::as_str) {
            Some("\"required\"") => Self::Required,
            Some("\"optional\"") => Self::Optional,
            _ => Self::Forbidden,
        }
    }
}

impl McpToolExecutor {
    pub(super) fn new(
        upstream: Arc<ServerSupervisor>,
        (own_name, definition): (&str, Option<Box<str>>),
        (argument_headers, task_support): (Option<ArgumentHeaders>, TaskSupport),
    ) -> Self {
        Self {
            supervisor: upstream,
            upstream_name: Json::encode(own_name),
            argument_headers,
            task_support,
            definition,
        }
    }

    /// Checks that a server that starts with its first call still has the definition that was listed, and
    /// pinned, without it.
    async fn check_definition(&self) -> Result<(), ExecuteError> {
        let Some(definition) = &self.definition else { return Ok(()) };
        let started = self.supervisor.wait_for_connection().await;
        started.map_err(|fault| {
            let message = format!("the server of `{}` {}", self.supervisor.name, fault.message);
            ExecuteError::not_sent(ErrorCode::UpstreamLost, message)
        })?;
        if self.supervisor.has_tool_definition(definition) {
            return Ok(());
        }
        let message = format!(
            "the definition of the tool has changed since it was listed, found when the server of \
             `{}` started",
            self.supervisor.name
        );
        Err(ExecuteError::not_sent(ErrorCode::Conflict, message))
    }

    async fn run_call(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let call = call.call();
        let params = RequestParams::ToolCall(&self.upstream_name, call.arguments.as_json());
        let job = CallSpec {
            method: "tools/call",
            params,
            argument_headers: self.argument_headers.as_ref(),
            is_handshake_only: self.argument_headers.is_none(),
            task_support: self.task_support,
        };
        self.check_definition().await?;
        let own = self.supervisor.server_for_caller(call, ctx).await?;
        UpstreamCall::new(own.as_ref().unwrap_or(&self.supervisor), call, ctx).run_call(job).await
    }
}

impl Executor for McpToolExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_call(call, ctx))
    }
}

/// Executor of prompts and resources, which are listed beside tools but cannot be called.
#[derive(Debug)]
pub(super) struct NotCallable;

impl Executor for NotCallable {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let message = format!(
            "`{}` is a prompt or a resource; only tools can be called",
            call.call().tool_key.name
        );
        Box::pin(std::future::ready(Err(ExecuteError::not_sent(ErrorCode::UnknownTool, message))))
    }
}
