//! Implements `toolkeep key revoke`, which revokes a key.

use clap::Args;
use tool::ErrorCode;

use super::format_keys;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;

/// Revoke an API key and all keys delegated from it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep key revoke 3f9c2ab81d04
  toolkeep key revoke 3f9c2ab81d04 --yes")]
pub(crate) struct KeyRevokeArgs {
    /// ID of the key: the part between the first two `_` of the key.
    #[arg(value_name = "ID")]
    id: String,
    /// Revoke the key even if it is the last valid owner key. `toolkeep key recover` creates a new
    /// one.
    #[arg(long)]
    yes: bool,
}

impl KeyRevokeArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let path = RequestPath::from_segments("/v1/keys", &[&self.id]);
        let path = path.with_query("last_owner", self.yes.then_some("true"));
        let session = context.connect().await?;
        let answer = session.client.delete_json(&path).await;
        session.close().await?;
        let answer = answer.map_err(|failure: CommandError| {
            let shows = "run `toolkeep key list` to see the IDs";
            if failure.is_without_help(ErrorCode::NotFound) {
                failure.with_help(shows)
            } else {
                failure
            }
        })?;
        ui.print_result(&answer, || format_keys(std::slice::from_ref(&answer)))?;
        Ok(ExitStatus::Success)
    }
}
