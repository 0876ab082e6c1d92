//! Implements `toolkeep ui`, which prints a link to the web console.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Stdio;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;

/// Print a link to the web console that signs you in once, and open it with `--open`.
///
/// Open it within two minutes in a browser on this machine. It signs in with your key, without showing the key to the
/// browser. Requires a running server.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep ui
  toolkeep ui --open
  toolkeep ui --url https://tools.example")]
pub(crate) struct UiArgs {
    /// Open the link in the browser of this desktop, by `xdg-open` or `open`.
    ///
    /// The browser gets a file of yours that leads on, not the link: other users of the machine can read the arguments
    /// of your processes.
    #[arg(long)]
    open: bool,
}

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
        if self.open {
            open_in_browser(&link.url)?;
        }
        Ok(ExitStatus::Success)
    }
}

/// Opens the link by way of a private file, which the opener gets instead of it.
fn open_in_browser(url: &str) -> Result<(), CommandError> {
    let page = sign_in_file(url).map_err(|error| {
        let message = format!("cannot write the file that leads to the link: {error}");
        CommandError::new(ExitStatus::Failed, message).with_help("open the printed link yourself")
    })?;
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    #[expect(
        clippy::disallowed_methods,
        reason = "the desktop's own program, which outlives this one"
    )]
    let mut command = std::process::Command::new(opener);
    let ended = command.arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).status();
    let reason = match ended {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!("`{opener}` ended with {status}"),
        Err(error) => format!("`{opener}` does not start: {error}"),
    };
    Err(CommandError::new(ExitStatus::Failed, reason).with_help("open the printed link yourself"))
}

/// Writes a page that leads to the link, readable for this user alone. It stays after the browser has it;
/// the link in it counts once and for two minutes.
fn sign_in_file(url: &str) -> io::Result<PathBuf> {
    let file = tempfile::Builder::new().prefix("toolkeep-ui-").suffix(".html").tempfile()?;
    // The link has only characters that need no escape in an attribute.
    let url = url.replace(['"', '<', '>', '&'], "");
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={url}\">\
         <title>Toolkeep</title><a href=\"{url}\">Open the console</a>\n"
    );
    file.as_file().write_all(page.as_bytes())?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    Ok(path)
}
