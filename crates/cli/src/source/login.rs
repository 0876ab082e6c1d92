//! Implements `toolkeep source login`, which logs in to a source in the browser.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::back::Back;
use crate::near;
use cli_core::client::{Client, Path};
use cli_core::context::Context;
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, clean};
use cli_core::value;

/// Timeout for the login of a person.
const PATIENCE: Duration = Duration::from_mins(10);

/// Let a source act in your name: prints the address at which you agree, and waits for the answer.
///
/// What the source is given is kept in the data directory, sealed, and used for every caller. It is
/// renewed by itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep source login tracker
  toolkeep source login tracker --port 8912")]
pub(crate) struct Login {
    /// The source.
    #[arg(value_name = "NAME")]
    source: String,
    /// The port of this machine that your browser comes back to, for clients that are registered with
    /// one: the address is http://127.0.0.1:PORT/callback [default: a free one].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

impl Login {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let back = Back::listen(self.port).await.map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot listen on port {}: {error}", self.port))
                .fix("choose another one with `--port`")
        })?;
        let session = context.connect().await?;
        session.sources(SourceNeed::Source(&self.source), ui).await;
        let done = self.agree(&session.client, &back, ui).await;
        session.end().await?;
        let done = done?;
        ui.answer(&done, || format!("logged in to {}", value::line(&done, "source", 40)))?;
        Ok(Exit::Done)
    }

    async fn agree(&self, client: &Client, back: &Back, ui: &mut Ui) -> Result<Value, Failure> {
        let body = json!({ "source": self.source, "redirect_uri": back.url() });
        let begun = client.post::<Value>(&Path::new("/v1/sources/login", &[]), &body).await;
        let begun = match begun {
            Ok(begun) => begun,
            Err(failure) => {
                return Err(near::named(near::SOURCE, client, &self.source, failure).await);
            }
        };
        let url = begun.get("url").and_then(Value::as_str).unwrap_or_default();
        ui.note(&format!("Open this address and agree:\n\n  {}\n", clean(url)));
        let brought = timeout(PATIENCE, back.next()).await.map_err(|_| {
            let failure = Failure::new(Exit::Failed, "no answer came within 10 minutes");
            failure.fix("run the command again")
        })?;
        let brought = brought
            .map_err(|error| Failure::new(Exit::Failed, format!("no answer can come: {error}")))?;
        let body = json!({
            "source": self.source, "path": brought.path, "query": brought.query });
        let path = Path::new("/v1/sources/login/finish", &[]);
        let done = client.post::<Value>(&path, &body).await;
        let text = match &done {
            Ok(_) => "You are logged in. You can close this page.",
            Err(_) => "This did not work. The terminal says why.",
        };
        brought.show(done.is_ok(), text).await;
        done
    }
}
