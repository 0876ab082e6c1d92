//! Implements `toolkeep key list`, which lists the keys.

use clap::Args;

use super::format_keys;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::paged_list;
use cli_core::printer::Printer;

/// List the API keys. Secrets are not stored and cannot be shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep key list")]
pub(crate) struct KeyListArgs {}

impl KeyListArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        let answer = paged_list::fetch_all_pages(&session.client, "/v1/keys", "keys").await;
        session.close().await?;
        let answer = answer?;
        ui.print_result(&answer, || format_keys(json_fields::field_items(&answer, "keys")))?;
        Ok(ExitStatus::Success)
    }
}
