//! Implements `toolkeep pin approve` and `toolkeep pin reject`.

use clap::Args;
use serde_json::{Value, json};

use super::{fetch_all_pins, fetch_pin, resolve_tool_name};
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::{RequestPath, RestClient};
use cli_core::server_transport::SourceNeed;

/// Approve a tool's definition, so that the tool can be called.
///
/// Approves one definition, identified by its hash, or the waiting one without `--definition`. If
/// the source has changed the definition since you reviewed it, nothing happens.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep pin approve files.read_file --definition sha256:3f9c…
  toolkeep pin approve --source files --reason 'release 2.1, read its changes'")]
pub(crate) struct PinApproveArgs {
    /// Tool name, or `SOURCE/TOOL` if several sources have a tool of this name.
    #[arg(value_name = "TOOL", required_unless_present = "source")]
    tool: Option<String>,
    #[command(flatten)]
    decision: PinDecisionArgs,
    /// Approve all waiting definitions of this source.
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["tool", "definition"])]
    source: Option<String>,
}

/// Reject a tool's definition. The tool is quarantined until another definition is approved.
///
/// An active definition can also be rejected.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep pin reject files.read_file --reason 'asks for keys'")]
pub(crate) struct PinRejectArgs {
    /// Tool name, or `SOURCE/TOOL` if several sources have a tool of this name.
    #[arg(value_name = "TOOL")]
    tool: String,
    #[command(flatten)]
    decision: PinDecisionArgs,
}

#[derive(Debug, Args)]
struct PinDecisionArgs {
    /// Hash of the reviewed definition, as `toolkeep pin diff` prints it.
    #[arg(long, value_name = "HASH")]
    definition: Option<String>,
    /// Reason for the decision, which is recorded.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl PinApproveArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        let need = self.source.as_deref().map(SourceNeed::Source);
        let need =
            need.unwrap_or_else(|| super::source_need(self.tool.as_deref().unwrap_or_default()));
        session.wait_for_sources(need, ui).await;
        let done = if let Some(source) = &self.source {
            approve_all_waiting(&session.client, source, &self.decision).await
        } else {
            let tool = self.tool.as_deref().unwrap_or_default();
            decide_one(&session.client, (tool, "approve"), &self.decision).await
        };
        session.close().await?;
        print_pins(ui, &done?)
    }
}

impl PinRejectArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_sources(super::source_need(&self.tool), ui).await;
        let done = decide_one(&session.client, (&self.tool, "reject"), &self.decision).await;
        session.close().await?;
        print_pins(ui, &done?)
    }
}

async fn decide_one(
    client: &RestClient,
    (tool, decision): (&str, &str),
    args: &PinDecisionArgs,
) -> Result<Vec<Value>, CommandError> {
    let id = resolve_tool_name(client, tool).await?;
    let definition = match &args.definition {
        Some(definition) => definition.clone(),
        None => json_fields::field_text(&fetch_pin(client, &id).await?, "definition"),
    };
    let path = RequestPath::from_segments("/v1/pins", &[&id.source, &id.tool, decision]);
    let body = json!({"definition": definition, "reason": args.reason});
    Ok(vec![client.post_json(&path, &body).await?])
}

/// Approves all waiting definitions of a source, each as it was listed here.
async fn approve_all_waiting(
    client: &RestClient,
    source: &str,
    args: &PinDecisionArgs,
) -> Result<Vec<Value>, CommandError> {
    let mut done = Vec::new();
    for pin in fetch_all_pins(client, Some(source), Some("waiting")).await? {
        let tool = json_fields::field_text(&pin, "tool");
        let path = RequestPath::from_segments("/v1/pins", &[source, &tool, "approve"]);
        let body = json!({"definition": json_fields::field_text(&pin, "definition"), "reason": args.reason});
        done.push(client.post_json(&path, &body).await?);
    }
    Ok(done)
}

fn print_pins(ui: &mut Printer, done: &[Value]) -> Result<ExitStatus, CommandError> {
    let line = |pin: &Value| {
        let (source, tool) = (
            json_fields::field_line(pin, "source", 128),
            json_fields::field_line(pin, "tool", 128),
        );
        format!("{source}/{tool}: {}", json_fields::field_line(pin, "state", 12))
    };
    let text = || match done {
        [] => "no definition waits for approval".to_owned(),
        done => done.iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    ui.print_result(&json!({ "pins": done }), text)?;
    Ok(ExitStatus::Success)
}
