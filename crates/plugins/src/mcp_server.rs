//! MCP servers that run as plugins, and their lifetime.
//!
//! The session is that of any server over pipes; folder and sandbox are this crate's.

use std::sync::Arc;

use source_mcp::McpSource;
use tokio_util::sync::DropGuard;
use tool::{
    BoxFuture, CallContext, ExecuteError, ExecutionState, Executor, RecordedCall, Source as _,
};

use crate::plugin_folder::FolderCopy;
use crate::plugin_version::VersionBuilder;

/// An MCP server of one plugin version. Dropping it stops the server.
#[derive(Debug)]
pub(crate) struct ServerLifetime {
    pub(crate) server: Arc<McpSource>,
    _end: DropGuard,
}

impl ServerLifetime {
    /// Keeps `folder_copy`, from which the server runs, until the server has ended.
    pub(crate) fn new(
        builder: &VersionBuilder,
        server: Arc<McpSource>,
        folder_copy: FolderCopy,
    ) -> Self {
        let end = builder.cancellation.child_token();
        let (over, closing_server) = (end.clone(), Arc::clone(&server));
        let closing = async move {
            over.cancelled().await;
            closing_server.shut_down().await;
            drop(folder_copy);
        };
        drop(builder.tasks.spawn_on(closing, &builder.runtime));
        Self { server, _end: end.drop_guard() }
    }
}

/// Executes a call at a server and keeps its version alive during the call.
#[derive(Debug)]
pub(crate) struct PluginMcpExecutor {
    inner: Arc<dyn Executor>,
    _session: Arc<ServerLifetime>,
}

impl PluginMcpExecutor {
    pub(crate) fn new(inner: Arc<dyn Executor>, server: Arc<ServerLifetime>) -> Self {
        Self { inner, _session: server }
    }
}

impl Executor for PluginMcpExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        self.inner.execute(call, ctx)
    }
}
