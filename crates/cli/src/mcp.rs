//! Implements `toolkeep mcp`, which serves MCP on standard input and output.
//!
//! It is a bridge: each message is forwarded unchanged to the server's MCP endpoint, and responses
//! are written as they arrive. It makes no decisions; the key identifies the caller.

mod bridge;
mod lines;
mod mirrors;
mod request;

use std::sync::Arc;

use clap::Args;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Serve MCP on standard input and output, for programs that start their servers.
///
/// Speaks to the server that holds the data directory, or to `--url`. Where none runs, it starts one in the
/// background, which all clients and commands share. That server ends a minute after its last client
/// (`server.idle_timeout`); `toolkeep stop` ends it at once. Its log is `background.log` in the data directory.
/// Sends the agent's key unless another is given.
///
/// `toolkeep.yaml` of the current folder is read only if it is trusted: `toolkeep config trust`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep mcp
  toolkeep mcp --source files
  toolkeep mcp --url https://tools.example.com

In the file of a program that starts MCP servers:
  { \"mcpServers\": { \"toolkeep\": { \"command\": \"toolkeep\", \"args\": [\"mcp\"] } } }")]
pub(crate) struct Mcp {
    /// Only this source, as it is: its own names, prompts and resources.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
}

impl Mcp {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let (session, notes) = context.connect_in_background().await?;
        for note in notes {
            ui.note(&format!("toolkeep mcp: {note}"));
        }
        let (out, written) = lines::output();
        let bridge = bridge::Bridge::new(session.client.clone(), self.source.as_deref(), out);
        let bridge = Arc::new(bridge);
        let mut lines = lines::input();
        while let Some(line) = lines.recv().await {
            bridge.take(line).await;
        }
        bridge.close().await;
        drop(bridge);
        written.await;
        session.end().await?;
        Ok(Exit::Done)
    }
}
