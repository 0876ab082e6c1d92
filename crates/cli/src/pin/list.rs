//! Implements `toolkeep pin list`, which lists definitions that await review.

use clap::Args;
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};

/// List the definitions that wait for approval, or all definitions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep pin list
  toolkeep pin list --source files
  toolkeep pin list --all -o json")]
pub(crate) struct PinListArgs {
    /// List only definitions of this source.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Include active and retired definitions.
    #[arg(long)]
    all: bool,
}

impl PinListArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_listing(self.source.as_deref(), ui).await;
        let state = (!self.all).then_some("waiting");
        let pins = super::fetch_all_pins(&session.client, self.source.as_deref(), state).await;
        session.close().await?;
        let pins = pins?;
        ui.print_result(&json!({ "pins": pins }), || format_pins(&pins))?;
        Ok(ExitStatus::Success)
    }
}

fn format_pins(pins: &[Value]) -> String {
    if pins.is_empty() {
        return "no definition waits for approval".to_owned();
    }
    let row = |pin: &Value| {
        let hides = pin.get("hidden").and_then(Value::as_bool) == Some(true);
        [
            json_fields::field_line(pin, "source", 40),
            json_fields::field_line(pin, "tool", 60),
            json_fields::field_line(pin, "state", 12),
            json_fields::field_line(pin, "since", 24),
            json_fields::field_line(pin, "definition", 19),
            if hides {
                "hidden characters".to_owned()
            } else {
                json_fields::field_line(pin, "reason", 40)
            },
        ]
    };
    let rows: Vec<_> = pins.iter().map(row).collect();
    format_table(["SOURCE", "TOOL", "STATE", "SINCE", "DEFINITION", "NOTE"], &rows)
}
