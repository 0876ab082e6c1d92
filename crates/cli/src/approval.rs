//! Implements `toolkeep approval`: commands for calls that wait for an approval.

mod decide;
mod edit_hunks;
mod list;
mod show;
mod watch;

use clap::Subcommand;
use serde_json::Value;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_fields};

/// List, watch, show, approve, deny and edit calls that wait for approval.
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalCommand {
    List(list::ApprovalListArgs),
    Show(show::ApprovalShowArgs),
    Approve(decide::ApprovalApproveArgs),
    Deny(decide::ApprovalDenyArgs),
    Edit(decide::ApprovalEditArgs),
    Watch(watch::ApprovalWatchArgs),
}

impl ApprovalCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Show(command) => command.run(context, ui).await,
            Self::Approve(command) => command.run(context, ui).await,
            Self::Deny(command) => command.run(context, ui).await,
            Self::Edit(command) => command.run(context, ui).await,
            Self::Watch(command) => command.run(context, ui).await,
        }
    }
}

/// Formats a pending call with everything that a person needs to decide.
fn format_approval(approval: &Value) -> String {
    let requester = approval.get("asked_by").unwrap_or(&Value::Null);
    let agent = requester.get("agent").and_then(Value::as_bool).unwrap_or_default();
    let who = if agent { "an agent" } else { "a person" };
    let who = format!(
        "{} ({who}, key {}, {})",
        json_fields::field_line(requester, "subject", 60),
        json_fields::field_line(requester, "key", 40),
        json_fields::field_line(requester, "level", 10)
    );
    let line = |key: &str| json_fields::field_line(approval, key, 200);
    let rows = [
        ("id", line("id")),
        ("state", line("state")),
        ("tool", format!("{} (source {})", line("tool"), line("source"))),
        ("why", line("why")),
        ("asked by", who),
        ("through", line("door")),
        ("effects", line("side_effects")),
        ("holds", line("holds")),
        ("created", line("created")),
        ("expires", line("expires")),
        ("sha256", line("arguments_sha256")),
    ];
    let mut text: Vec<_> = rows.iter().map(|(key, fact)| format!("{key:<9} {fact}")).collect();
    text.push("arguments".to_owned());
    let arguments = format_fields(approval.get("arguments").unwrap_or(&Value::Null));
    text.extend(arguments.lines().map(|line| format!("  {line}")));
    let changes = approval.get("arguments").and_then(edit_hunks::format_hunks);
    if let Some(changes) = changes.filter(|changes| !changes.is_empty()) {
        text.push("changes".to_owned());
        text.extend(
            changes.lines().map(|line| format!("  {}", cli_core::printer::sanitize_text(line))),
        );
    }
    for key in ["decided", "ended"] {
        let Some(part) = approval.get(key).filter(|part| part.is_object()) else { continue };
        text.push(key.to_owned());
        text.extend(format_fields(part).lines().map(|line| format!("  {line}")));
    }
    text.join("\n")
}

/// Formats a pending call as one row of a list.
fn approval_row(approval: &Value) -> [String; 7] {
    let requester = approval.get("asked_by").unwrap_or(&Value::Null);
    let arguments = approval.get("arguments").map(Value::to_string).unwrap_or_default();
    [
        json_fields::field_line(approval, "id", 36),
        json_fields::field_line(approval, "state", 10),
        json_fields::field_line(approval, "tool", 40),
        json_fields::field_line(requester, "subject", 24),
        json_fields::field_line(approval, "reason", 16),
        json_fields::field_line(approval, "expires", 24),
        cli_core::printer::sanitize_line(&cli_core::printer::sanitize_text(&arguments), 60),
    ]
}

#[cfg(test)]
mod tests;
