//! Implements `toolkeep source logout`, which removes the credentials of a source.

use clap::Args;
use serde_json::{Value, json};

use crate::name_suggestions;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;
use cli_core::server_transport::SourceNeed;

/// Log out of a source: delete its stored tokens and revoke them if its server supports that.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep source logout tracker")]
pub(crate) struct SourceLogoutArgs {
    /// Name of the source.
    #[arg(value_name = "NAME")]
    source: String,
}

impl SourceLogoutArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_sources(SourceNeed::Source(&self.source), ui).await;
        let body = json!({ "source": self.source });
        let mut done = session
            .client
            .post_json::<Value>(&RequestPath::from_segments("/v1/sources/logout", &[]), &body)
            .await;
        if let Err(failure) = done {
            done = Err(name_suggestions::with_name_suggestion(
                name_suggestions::SOURCE_NAMES,
                &session.client,
                &self.source,
                failure,
            )
            .await);
        }
        session.close().await?;
        let done = done?;
        let given = done.get("given").and_then(Value::as_bool) == Some(true);
        let text = if given { "logged out of" } else { "not logged in to" };
        ui.print_result(&done, || {
            format!("{text} {}", json_fields::field_line(&done, "source", 40))
        })?;
        Ok(ExitStatus::Success)
    }
}
