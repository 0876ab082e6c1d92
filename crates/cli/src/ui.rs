//! Implements `toolkeep ui`, which prints a link to the web console.

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;

/// Print a link to the web console that signs you in once.
///
/// Open it within two minutes in a browser on this machine. It signs in with your key, without showing the key to the
/// browser. Requires a running server.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep ui
  toolkeep ui --url https://tools.example")]
pub(crate) struct UiArgs {}

#[derive(Debug, Serialize)]
struct ConsoleLink {
    url: String,
    /// Seconds until an unused link is void.
    expires_in: Value,
}

impl UiArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let (address, _) = context.require_server()?;
        let session = context.connect().await?;
        let path = RequestPath::from_segments("/v1/sign-in-links", &[]);
        let reply = session.client.post_json::<Value>(&path, &json!({})).await;
        session.close().await?;
        let reply = reply?;
        let path = json_fields::field_line(&reply, "path", 200);
        let expires_in = reply.get("expires_in").cloned().unwrap_or_default();
        let url = format!("{}{path}", address.trim_end_matches('/'));
        let link = ConsoleLink { url, expires_in };
        ui.print_result(&link, || link.url.clone())?;
        Ok(ExitStatus::Success)
    }
}
