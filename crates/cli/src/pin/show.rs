//! Implements `toolkeep pin show`, which shows a definition with its text.

use clap::Args;
use serde_json::Value;

use super::{looked_up, part, pretty};
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::value;

/// Show what is kept of one tool's definition, with its text.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep pin show files.read_file
  toolkeep pin show files/files.read_file -o json")]
pub(crate) struct Show {
    /// The tool; `SOURCE/TOOL` where several sources have one of that name.
    #[arg(value_name = "TOOL")]
    tool: String,
}

impl Show {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let pin = looked_up(context, &self.tool, ui).await?;
        ui.answer(&pin, || text(&pin))?;
        Ok(Exit::Done)
    }
}

fn text(pin: &Value) -> String {
    let mut lines = vec![format!(
        "{}/{}: {}",
        value::line(pin, "source", 128),
        value::line(pin, "tool", 128),
        value::line(pin, "state", 12)
    )];
    for key in ["by", "reason"] {
        let fact = value::line(pin, key, 500);
        if !fact.is_empty() {
            lines.push(format!("  {key:<12}{fact}"));
        }
    }
    for (key, word) in [("active", "agreed to"), ("waiting", "waits")] {
        let Some(sight) = part(pin, key) else { continue };
        let hides = sight.get("hidden").and_then(Value::as_bool) == Some(true);
        let hides = if hides { ", with hidden characters, written out here" } else { "" };
        let (at, definition) = (value::line(sight, "at", 24), value::line(sight, "definition", 80));
        lines.push(format!("\n{word} since {at}{hides}:\n  {definition}"));
        lines.push(match part(sight, "received") {
            Some(received) => pretty(received),
            None => "  (its text is not kept)".to_owned(),
        });
    }
    lines.join("\n")
}
