//! The backend that runs the tools of a version: a plugin process or an MCP server.

use std::sync::Arc;

use tool::Json;

use super::mcp_version::McpBackend;
use crate::plugin_process::{PluginCallResult, ProcessSupervisor};

/// Backend of a version: a plugin process or an MCP server.
#[derive(Debug)]
pub(crate) enum VersionBackend {
    Process(Arc<ProcessSupervisor>),
    McpServer(Box<McpBackend>),
}

impl VersionBackend {
    /// Returns the MCP server, if the backend is one.
    pub(super) fn mcp_backend(&self) -> Option<&McpBackend> {
        match self {
            Self::Process(_) => None,
            Self::McpServer(mcp_backend) => Some(mcp_backend),
        }
    }

    /// Calls a tool for the author of the plugin, without a record.
    ///
    /// # Errors
    /// Fails if the call cannot start.
    pub(crate) async fn call_for_test(
        &self,
        tool: &str,
        input: &Json,
    ) -> Result<PluginCallResult, String> {
        match self {
            Self::Process(supervisor) => {
                let process = supervisor.running_process().await.map_err(|error| error.message)?;
                let started = process.start_call(tool, input);
                let begun = started.map_err(|_| "its process accepts no call".to_owned())?;
                Ok(begun
                    .result
                    .await
                    .unwrap_or(PluginCallResult::ProcessLost("it no longer exists".to_owned())))
            }
            Self::McpServer(mcp_backend) => {
                let server = &mcp_backend.server_lifetime.server;
                Ok(match server.call_for_test(tool, input).await {
                    Ok(Ok(value)) => PluginCallResult::Value(value),
                    Ok(Err(message)) => PluginCallResult::ToolFailed(message),
                    Err(why) => PluginCallResult::ProcessLost(why),
                })
            }
        }
    }
}
