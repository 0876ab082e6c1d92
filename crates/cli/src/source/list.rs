//! Implements `toolkeep source list`, which lists the sources.

use clap::Args;

use super::text;
use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// List the sources: how each stands, and what is wrong with it.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep source list")]
pub(crate) struct List {}

impl List {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.list_sources(None, ui).await;
        let answer = session.client.get(&Path::new("/v1/sources", &[])).await;
        // Printed first: stopping an own server takes as long as its sources do.
        let shown = answer.and_then(|answer| ui.answer(&answer, || text(&answer)));
        session.end().await?;
        shown.map(|()| Exit::Done)
    }
}
