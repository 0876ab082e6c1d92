//! Implements `toolkeep source login`, which logs in to a source in the browser.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::oauth_callback::CallbackListener;
use crate::name_suggestions;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, sanitize_text};
use cli_core::rest_client::{RequestPath, RestClient};
use cli_core::server_transport::SourceNeed;

/// Timeout for the login of a person.
const LOGIN_TIMEOUT: Duration = Duration::from_mins(10);

/// Log in to a source with OAuth: print the address to open in a browser and wait for the redirect.
///
/// The tokens are stored encrypted in the data directory, used for every caller and renewed
/// automatically.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep source login tracker
  toolkeep source login tracker --port 8912")]
pub(crate) struct SourceLoginArgs {
    /// Name of the source.
    #[arg(value_name = "NAME")]
    source: String,
    /// Local port of the redirect URL http://127.0.0.1:PORT/callback, for clients that are
    /// registered with a fixed port [default: a free port].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

impl SourceLoginArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let back = CallbackListener::bind_loopback(self.port).await.map_err(|error| {
            CommandError::new(
                ExitStatus::Failed,
                format!("cannot listen on port {}: {error}", self.port),
            )
            .with_help("choose another port with `--port`")
        })?;
        let session = context.connect().await?;
        session.wait_for_sources(SourceNeed::Source(&self.source), ui).await;
        let done = self.authorize(&session.client, &back, ui).await;
        session.close().await?;
        let done = done?;
        ui.print_result(&done, || {
            format!("logged in to {}", json_fields::field_line(&done, "source", 40))
        })?;
        Ok(ExitStatus::Success)
    }

    async fn authorize(
        &self,
        client: &RestClient,
        back: &CallbackListener,
        ui: &mut Printer,
    ) -> Result<Value, CommandError> {
        let body = json!({ "source": self.source, "redirect_uri": back.callback_url() });
        let begun = client
            .post_json::<Value>(&RequestPath::from_segments("/v1/sources/login", &[]), &body)
            .await;
        let begun = match begun {
            Ok(begun) => begun,
            Err(failure) => {
                return Err(name_suggestions::with_name_suggestion(
                    name_suggestions::SOURCE_NAMES,
                    client,
                    &self.source,
                    failure,
                )
                .await);
            }
        };
        let url = begun.get("url").and_then(Value::as_str).unwrap_or_default();
        ui.print_note(&format!(
            "Open this address in a browser and approve the access:\n\n  {}\n",
            sanitize_text(url)
        ));
        let brought = timeout(LOGIN_TIMEOUT, back.accept_callback()).await.map_err(|_| {
            let failure = CommandError::new(
                ExitStatus::Failed,
                "the login was not completed within 10 \
                                                      minutes",
            );
            failure.with_help("run the command again")
        })?;
        let brought = brought.map_err(|error| {
            CommandError::new(
                ExitStatus::Failed,
                format!(
                    "cannot receive the redirect: \
                                                                 {error}"
                ),
            )
        })?;
        let body = json!({
            "source": self.source, "path": brought.path, "query": brought.query });
        let path = RequestPath::from_segments("/v1/sources/login/finish", &[]);
        let done = client.post_json::<Value>(&path, &body).await;
        let text = match &done {
            Ok(_) => "Login succeeded. You can close this page.",
            Err(_) => "Login failed. The terminal shows the reason.",
        };
        brought.respond(done.is_ok(), text).await;
        done
    }
}
