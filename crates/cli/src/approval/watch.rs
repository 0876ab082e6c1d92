//! Implements `toolkeep approval watch`, which prints pending calls as they arrive.
//!
//! It polls the list route; only the ids that were shown are remembered.

use std::collections::HashSet;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::text;
use cli_core::client::{Client, Path};
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::value;

/// Show each call that waits for a decision as it comes. Ends with ctrl-c.
///
/// Needs a server that runs. As JSON each call is one line, as YAML one document.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval watch
  toolkeep approval watch -o json")]
pub(crate) struct Watch {
    /// How often to look, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(100..=60_000))]
    every_ms: u64,
}

impl Watch {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        // An own server would lock the data directory and keep out everyone who might call.
        let watched = if session.is_own() {
            let failure = Failure::new(Exit::NoServer, "no server runs, so nothing new comes");
            Err(failure.fix("start one with `toolkeep serve`"))
        } else {
            self.watch(&session.client, ui).await
        };
        session.end().await?;
        watched.map(|()| Exit::Done)
    }

    async fn watch(&self, client: &Client, ui: &mut Ui) -> Result<(), Failure> {
        let mut shown = HashSet::new();
        loop {
            let page =
                client.get(&Path::new("/v1/approvals", &[]).with("limit", Some(200))).await?;
            let approvals = value::list(&page, "approvals");
            // Ids that are no longer pending need not be remembered.
            let ids: HashSet<_> = approvals.iter().map(id).collect();
            for approval in approvals.iter().rev().filter(|it| !shown.contains(&id(it))) {
                if ui.stream(approval, || told(approval))?.is_break() {
                    return Ok(());
                }
            }
            shown = ids;
            tokio::time::sleep(Duration::from_millis(self.every_ms)).await;
        }
    }
}

fn id(approval: &Value) -> String {
    value::line(approval, "id", 36)
}

fn told(approval: &Value) -> String {
    let id = id(approval);
    format!(
        "{}\n  toolkeep approval approve {id}\n  toolkeep approval deny {id} --reason …\n",
        text(approval)
    )
}
