//! Implements `toolkeep approval list`, which lists pending calls.

use clap::Args;
use serde_json::Value;

use super::row;
use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// List the calls that wait for a decision, the newest first.
///
/// With a key that has the right `approve`, as owner.key has it, all of the organisation; else the
/// key's own.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval list
  toolkeep approval list --all --limit 10")]
pub(crate) struct List {
    /// Those that were decided, too, as long as they are kept.
    #[arg(long)]
    all: bool,
    /// How many.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// Go on from here: the cursor that the list before ended with.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl List {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let path = Path::new("/v1/approvals", &[])
            .with("state", self.all.then_some("all"))
            .with("limit", Some(self.limit))
            .with("cursor", self.cursor.as_deref());
        let session = context.connect().await?;
        session.list_sources(None, ui).await;
        let answer = session.client.get(&path).await;
        // Printed first: stopping an own server takes as long as its sources do.
        let shown = answer.and_then(|answer| ui.answer(&answer, || text(&answer)));
        session.end().await?;
        shown.map(|()| Exit::Done)
    }
}

fn text(answer: &Value) -> String {
    let approvals = value::list(answer, "approvals");
    if approvals.is_empty() {
        return "nothing waits".to_owned();
    }
    let rows: Vec<_> = approvals.iter().map(row).collect();
    let table = table(["ID", "STATE", "TOOL", "WHO", "WHY", "EXPIRES", "ARGUMENTS"], &rows);
    let next = value::line(answer, "next_cursor", 40);
    if next.is_empty() { table } else { format!("{table}\n\nmore: --cursor {next}") }
}
