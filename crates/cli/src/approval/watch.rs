//! Implements `toolkeep approval watch`, which prints pending calls as they arrive.
//!
//! It polls the list route; only the ids that were shown are remembered.

use std::collections::HashSet;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::format_approval;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::{RequestPath, RestClient};
use cli_core::server_connection::START_SERVER;

/// Watch for calls that need approval and print each one as it arrives. Stop with Ctrl-C.
///
/// Requires a running server. Prints one line per call as JSON, one document per call as YAML.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval watch
  toolkeep approval watch -o json")]
pub(crate) struct ApprovalWatchArgs {
    /// Polling interval in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(100..=60_000))]
    every_ms: u64,
}

impl ApprovalWatchArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let why = "no server is running, so no new calls can arrive";
        let session = context.connect().await?.require_running(why, START_SERVER).await?;
        let watched = self.print_new_approvals(&session.client, ui).await;
        session.close().await?;
        watched.map(|()| ExitStatus::Success)
    }

    async fn print_new_approvals(
        &self,
        client: &RestClient,
        ui: &mut Printer,
    ) -> Result<(), CommandError> {
        let mut shown = HashSet::new();
        loop {
            let page = client
                .get_json(
                    &RequestPath::from_segments("/v1/approvals", &[])
                        .with_query("limit", Some(200)),
                )
                .await?;
            let approvals = json_fields::field_items(&page, "approvals");
            // Ids that are no longer pending need not be remembered.
            let ids: HashSet<_> = approvals.iter().map(approval_id).collect();
            for approval in approvals.iter().rev().filter(|it| !shown.contains(&approval_id(it))) {
                if ui.print_item(approval, || format_with_commands(approval))?.is_break() {
                    return Ok(());
                }
            }
            shown = ids;
            tokio::time::sleep(Duration::from_millis(self.every_ms)).await;
        }
    }
}

fn approval_id(approval: &Value) -> String {
    json_fields::field_line(approval, "id", 36)
}

fn format_with_commands(approval: &Value) -> String {
    let id = approval_id(approval);
    format!(
        "{}\n  toolkeep approval approve {id}\n  toolkeep approval deny {id} --reason …\n",
        format_approval(approval)
    )
}
