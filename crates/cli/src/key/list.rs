//! Implements `toolkeep key list`, which lists the keys.

use clap::Args;

use super::text;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::pages;
use cli_core::ui::Ui;
use cli_core::value;

/// List the keys. The keys themselves are not kept and cannot be shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep key list")]
pub(crate) struct List {}

impl List {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        let answer = pages::all(&session.client, "/v1/keys", "keys").await;
        session.end().await?;
        let answer = answer?;
        ui.answer(&answer, || text(value::list(&answer, "keys")))?;
        Ok(Exit::Done)
    }
}
