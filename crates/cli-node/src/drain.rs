//! Implements `toolkeep node drain` and `toolkeep node resume`.

use clap::Args;
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;

/// Drain a node: send it no further calls. Running calls end as usual.
///
/// It holds until `node resume`, or until the server restarts. Requires the right `nodes:write`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node drain node-abc123")]
pub(crate) struct NodeDrainArgs {
    /// ID of the node.
    #[arg(value_name = "NODE")]
    node_id: String,
}

/// Resume a drained node: send it calls again. Requires the right `nodes:write`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node resume node-abc123")]
pub(crate) struct NodeResumeArgs {
    /// ID of the node.
    #[arg(value_name = "NODE")]
    node_id: String,
}

impl NodeDrainArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let status = post_change(context, ui, (&self.node_id, "drain")).await?;
        ui.print_note("to send it calls again: toolkeep node resume NODE");
        Ok(status)
    }
}

impl NodeResumeArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        post_change(context, ui, (&self.node_id, "resume")).await
    }
}

async fn post_change(
    context: &CommandContext<'_>,
    ui: &mut Printer,
    (node, change): (&str, &str),
) -> Result<ExitStatus, CommandError> {
    let session = context.connect().await?;
    let path = RequestPath::from_segments("/v1/nodes", &[node, change]);
    let answer = session.client.post_json(&path, &json!({})).await;
    session.close().await?;
    let answer: Value = answer?;
    ui.print_result(&answer, || {
        let drained = answer.get("drained").and_then(Value::as_bool) == Some(true);
        let done = if drained { "drained" } else { "resumed" };
        format!("{done} {}", json_fields::field_line(&answer, "node_id", 60))
    })?;
    Ok(ExitStatus::Success)
}
