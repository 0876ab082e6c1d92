//! Implements `toolkeep mcp`, which serves MCP on standard input and output.
//!
//! It is a bridge: each message is forwarded unchanged to the server's MCP endpoint, and responses
//! are written as they arrive. It makes no decisions; the key identifies the caller.

mod argument_headers;
mod http_request;
mod stdio_bridge;
mod stdio_lines;

use std::sync::Arc;

use clap::Args;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Serve MCP over standard input and output, for clients that start their servers.
///
/// Connects to the server that uses the data directory, or to `--url`. If none runs, it starts a
/// background server that all clients and commands share. That server stops a minute after its last
/// client (`server.idle_timeout`) or with `toolkeep stop`. It logs to `background.log` in the data
/// directory. Sends agent.key unless another key is given.
///
/// Reads `toolkeep.yaml` of the current directory only if it is trusted (`toolkeep config trust`).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep mcp
  toolkeep mcp --source files
  toolkeep mcp --url https://tools.example.com

In the configuration file of an MCP client:
  { \"mcpServers\": { \"toolkeep\": { \"command\": \"toolkeep\", \"args\": [\"mcp\"] } } }")]
pub(crate) struct McpArgs {
    /// Serve only this source, with its own tool names, prompts and resources.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
}

impl McpArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let (session, notes) = context.connect_in_background().await?;
        for note in notes {
            ui.print_note(&format!("toolkeep mcp: {note}"));
        }
        let (out, written) = stdio_lines::spawn_stdout_writer();
        let bridge =
            stdio_bridge::StdioBridge::new(session.client.clone(), self.source.as_deref(), out);
        let bridge = Arc::new(bridge);
        let mut lines = stdio_lines::spawn_stdin_reader();
        while let Some(line) = lines.recv().await {
            bridge.handle_line(line).await;
        }
        bridge.close().await;
        drop(bridge);
        written.await;
        session.close().await?;
        Ok(ExitStatus::Success)
    }
}
