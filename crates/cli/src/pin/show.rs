//! Implements `toolkeep pin show`, which shows a definition with its text.

use clap::Args;
use serde_json::Value;

use super::{fetch_pin_by_name, format_value, non_null_field};
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;

/// Show the stored definition of a tool and its state.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep pin show files.read_file
  toolkeep pin show files/files.read_file -o json")]
pub(crate) struct PinShowArgs {
    /// Tool name, or `SOURCE/TOOL` if several sources have a tool of this name.
    #[arg(value_name = "TOOL")]
    tool: String,
}

impl PinShowArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let pin = fetch_pin_by_name(context, &self.tool, ui).await?;
        ui.print_result(&pin, || format_pin(&pin))?;
        Ok(ExitStatus::Success)
    }
}

fn format_pin(pin: &Value) -> String {
    let mut lines = vec![format!(
        "{}/{}: {}",
        json_fields::field_line(pin, "source", 128),
        json_fields::field_line(pin, "tool", 128),
        json_fields::field_line(pin, "state", 12)
    )];
    for key in ["by", "reason"] {
        let fact = json_fields::field_line(pin, key, 500);
        if !fact.is_empty() {
            lines.push(format!("  {key:<12}{fact}"));
        }
    }
    for (key, word) in [("active", "agreed to"), ("waiting", "waits")] {
        let Some(sight) = non_null_field(pin, key) else { continue };
        let hides = sight.get("hidden").and_then(Value::as_bool) == Some(true);
        let hides = if hides { ", with invisible characters, escaped here" } else { "" };
        let (at, definition) = (
            json_fields::field_line(sight, "at", 24),
            json_fields::field_line(sight, "definition", 80),
        );
        lines.push(format!("\n{word} since {at}{hides}:\n  {definition}"));
        lines.push(match non_null_field(sight, "received") {
            Some(received) => format_value(received),
            None => "  (text not stored)".to_owned(),
        });
    }
    lines.join("\n")
}
