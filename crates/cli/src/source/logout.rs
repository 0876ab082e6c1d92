//! Implements `toolkeep source logout`, which removes the credentials of a source.

use clap::Args;
use serde_json::{Value, json};

use crate::near;
use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::value;

/// Forget what a source was given at a login, and take it back where its server can.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep source logout tracker")]
pub(crate) struct Logout {
    /// The source.
    #[arg(value_name = "NAME")]
    source: String,
}

impl Logout {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.sources(SourceNeed::Source(&self.source), ui).await;
        let body = json!({ "source": self.source });
        let mut done =
            session.client.post::<Value>(&Path::new("/v1/sources/logout", &[]), &body).await;
        if let Err(failure) = done {
            done = Err(near::named(near::SOURCE, &session.client, &self.source, failure).await);
        }
        session.end().await?;
        let done = done?;
        let given = done.get("given").and_then(Value::as_bool) == Some(true);
        let text = if given { "logged out of" } else { "nobody was logged in to" };
        ui.answer(&done, || format!("{text} {}", value::line(&done, "source", 40)))?;
        Ok(Exit::Done)
    }
}
