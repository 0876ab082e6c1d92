//! Runs one call of a tool on its server.

use std::sync::Arc;

use ::mcp::header::Mirror;
use tool::{Boxed, Code, Context, ExecuteError, Executor, Granted, Json, Step};

use super::request::Params;
use super::run::{Job, Run};
use super::upstream::Upstream;

/// One tool of one server. The connection is looked up at each call, so that an executor outlives it.
#[derive(Debug)]
pub(super) struct ToolCall {
    upstream: Arc<Upstream>,
    /// The name the server knows it by, as JSON.
    own: Json,
    /// Nothing where its marks do not hold, which matters to one era only.
    mirror: Option<Mirror>,
    support: Support,
}

/// Whether a tool of 2025-11-25 is called as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Support {
    /// Never.
    None,
    /// It can be: it may take long.
    Optional,
    /// In no other way.
    Required,
}

impl Support {
    /// What a definition says.
    pub(super) fn of(received: &Json) -> Self {
        let said = received.get("execution").and_then(|said| said.get("taskSupport"));
        match said.as_ref().map(Json::as_str) {
            Some("\"required\"") => Self::Required,
            Some("\"optional\"") => Self::Optional,
            _ => Self::None,
        }
    }
}

impl ToolCall {
    pub(super) fn new(
        upstream: Arc<Upstream>,
        own: &str,
        (mirror, support): (Option<Mirror>, Support),
    ) -> Self {
        Self { upstream, own: Json::of(own), mirror, support }
    }

    async fn run(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let call = call.call();
        let params = Params::Tool(&self.own, call.args.raw());
        let job = Job {
            method: "tools/call",
            params,
            mirror: self.mirror.as_ref(),
            bare: self.mirror.is_none(),
            support: self.support,
        };
        let own = self.upstream.of_caller(call, ctx).await?;
        Run::new(own.as_ref().unwrap_or(&self.upstream), call, ctx).job(job).await
    }
}

impl Executor for ToolCall {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(call, ctx))
    }
}

/// Prompts and resources are shown beside tools; they are no tools.
#[derive(Debug)]
pub(super) struct NotCalled;

impl Executor for NotCalled {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        _: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let message =
            format!("`{}` is a prompt or a resource; only tools are called", call.call().key.name);
        Box::pin(std::future::ready(Err(ExecuteError::before(Code::UnknownTool, message))))
    }
}
