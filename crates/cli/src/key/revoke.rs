//! Implements `toolkeep key revoke`, which revokes a key.

use clap::Args;
use tool::Code;

use super::text;
use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Revoke a key: it does not hold from here on, nor does any that came of it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep key revoke 3f9c2ab81d04
  toolkeep key revoke 3f9c2ab81d04 --yes")]
pub(crate) struct Revoke {
    /// The key's id: what stands between the first two `_` of the key.
    #[arg(value_name = "ID")]
    id: String,
    /// Revoke it although it is the last valid owner key. `toolkeep key recover` makes a new one.
    #[arg(long)]
    yes: bool,
}

impl Revoke {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let path = Path::new("/v1/keys", &[&self.id]);
        let path = path.with("last_owner", self.yes.then_some("true"));
        let session = context.connect().await?;
        let answer = session.client.delete(&path).await;
        session.end().await?;
        let answer = answer.map_err(|failure: Failure| {
            let shows = "`toolkeep key list` shows their ids";
            if failure.is_bare(Code::NotFound) { failure.fix(shows) } else { failure }
        })?;
        ui.answer(&answer, || text(std::slice::from_ref(&answer)))?;
        Ok(Exit::Done)
    }
}
