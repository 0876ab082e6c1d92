//! Implements `toolkeep approval list`, which lists pending calls.

use clap::Args;
use serde_json::Value;

use super::approval_row;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};
use cli_core::rest_client::RequestPath;

/// List pending calls, newest first.
///
/// A key with the right `approve`, such as owner.key, lists all calls of the organisation; other
/// keys list their own.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval list
  toolkeep approval list --all --limit 10")]
pub(crate) struct ApprovalListArgs {
    /// Include decided calls, as long as they are stored.
    #[arg(long)]
    all: bool,
    /// Maximum number of calls.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// Cursor that the previous page ended with.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl ApprovalListArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let path = RequestPath::from_segments("/v1/approvals", &[])
            .with_query("state", self.all.then_some("all"))
            .with_query("limit", Some(self.limit))
            .with_query("cursor", self.cursor.as_deref());
        let session = context.connect().await?;
        session.wait_for_listing(None, ui).await;
        let answer = session.client.get_json(&path).await;
        // Printed first: stopping an own server takes as long as its sources do.
        let shown =
            answer.and_then(|answer| ui.print_result(&answer, || format_approvals(&answer)));
        session.close().await?;
        shown.map(|()| ExitStatus::Success)
    }
}

fn format_approvals(answer: &Value) -> String {
    let approvals = json_fields::field_items(answer, "approvals");
    if approvals.is_empty() {
        return "no pending calls".to_owned();
    }
    let rows: Vec<_> = approvals.iter().map(approval_row).collect();
    let table = format_table(["ID", "STATE", "TOOL", "WHO", "WHY", "EXPIRES", "ARGUMENTS"], &rows);
    let next = json_fields::field_line(answer, "next_cursor", 40);
    if next.is_empty() { table } else { format!("{table}\n\nmore: --cursor {next}") }
}
