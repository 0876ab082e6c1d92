//! Implements `toolkeep pin list`, which lists definitions that await review.

use clap::Args;
use serde_json::{Value, json};

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// List the definitions that wait for someone to look at them, or all.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep pin list
  toolkeep pin list --source files
  toolkeep pin list --all -o json")]
pub(crate) struct List {
    /// Only of this source.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Those that are active or retired as well.
    #[arg(long)]
    all: bool,
}

impl List {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.list_sources(self.source.as_deref(), ui).await;
        let state = (!self.all).then_some("waiting");
        let pins = super::all(&session.client, self.source.as_deref(), state).await;
        session.end().await?;
        let pins = pins?;
        ui.answer(&json!({ "pins": pins }), || text(&pins))?;
        Ok(Exit::Done)
    }
}

fn text(pins: &[Value]) -> String {
    if pins.is_empty() {
        return "nothing waits".to_owned();
    }
    let row = |pin: &Value| {
        let hides = pin.get("hidden").and_then(Value::as_bool) == Some(true);
        [
            value::line(pin, "source", 40),
            value::line(pin, "tool", 60),
            value::line(pin, "state", 12),
            value::line(pin, "since", 24),
            value::line(pin, "definition", 19),
            if hides { "hidden characters".to_owned() } else { value::line(pin, "reason", 40) },
        ]
    };
    let rows: Vec<_> = pins.iter().map(row).collect();
    table(["SOURCE", "TOOL", "STATE", "SINCE", "DEFINITION", "NOTE"], &rows)
}
