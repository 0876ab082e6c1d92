//! Implements `toolkeep approval show`, which shows one pending call.

use clap::Args;

use super::text;
use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Show a held call: what would run, for whom, and why it is held.
///
/// What cannot be seen of its arguments, such as characters without width, is written out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval show 01980000-0000-7000-8000-000000000000
  toolkeep approval show 01980000-0000-7000-8000-000000000000 -o json")]
pub(crate) struct Show {
    /// Its id, as `toolkeep approval list` shows it.
    #[arg(value_name = "ID")]
    id: String,
}

impl Show {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.sources(SourceNeed::Approval(&self.id), ui).await;
        let answer = session.client.get(&Path::new("/v1/approvals", &[&self.id])).await;
        session.end().await?;
        let answer = answer?;
        ui.answer(&answer, || text(&answer))?;
        Ok(Exit::Done)
    }
}
