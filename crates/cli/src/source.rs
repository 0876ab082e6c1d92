//! Implements `toolkeep source`: commands for tool sources.

mod add;
mod list;
mod login;
mod logout;
mod oauth_callback;
mod refresh;
mod switch;

use clap::Subcommand;
use serde_json::Value;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields::{self, ProblemWidths};
use cli_core::printer::{Printer, format_table};

/// Widths of the problems of a source.
const SOURCE_WIDTHS: ProblemWidths = ProblemWidths { name: 40, message: 5_000 };

/// List, add, refresh, log in to and log out of sources of tools.
#[derive(Debug, Subcommand)]
pub(crate) enum SourceCommand {
    List(list::SourceListArgs),
    Add(Box<add::SourceAddArgs>),
    Refresh(refresh::SourceRefreshArgs),
    Disable(switch::SourceDisableArgs),
    Enable(switch::SourceEnableArgs),
    Login(login::SourceLoginArgs),
    Logout(logout::SourceLogoutArgs),
}

impl SourceCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Add(command) => command.run(context, ui).await,
            Self::Refresh(command) => command.run(context, ui).await,
            Self::Disable(command) => command.run(context, ui).await,
            Self::Enable(command) => command.run(context, ui).await,
            Self::Login(command) => command.run(context, ui).await,
            Self::Logout(command) => command.run(context, ui).await,
        }
    }
}

/// Formats the sources as a table, followed by their problems.
fn format_sources(answer: &Value) -> String {
    let sources = json_fields::field_items(answer, "sources");
    if sources.is_empty() {
        return "no sources".to_owned();
    }
    let row = |source: &Value| {
        let since = json_fields::field_line(source, "stale_since", 24);
        let state = json_fields::field_line(source, "state", 16);
        let state = if since.is_empty() { state } else { format!("{state} since {since}") };
        [
            json_fields::field_line(source, "name", 40),
            json_fields::field_line(source, "kind", 16),
            state,
            format_tool_count(source),
            json_fields::field_line(source, "prompts", 8),
            json_fields::field_line(source, "resources", 8),
            format_trust(source),
        ]
    };
    let rows: Vec<_> = sources.iter().map(row).collect();
    let head = ["NAME", "KIND", "STATE", "TOOLS", "PROMPTS", "RESOURCES", "TRUST"];
    let below: String =
        sources.iter().map(|source| json_fields::format_problems(source, SOURCE_WIDTHS)).collect();
    let waits = sources.iter().filter_map(|source| {
        let count = source.get("waiting").and_then(Value::as_u64).filter(|count| *count > 0)?;
        Some(format!("{count} of {}", json_fields::field_line(source, "name", 40)))
    });
    let waits: Vec<_> = waits.collect();
    let look = if waits.is_empty() {
        String::new()
    } else {
        format!("\n\nwaiting for approval: {}; run `toolkeep pin list`", waits.join(", "))
    };
    format!("{}{below}{look}", format_table(head, &rows))
}

/// Formats the trust in a source and in its annotations.
fn format_trust(source: &Value) -> String {
    let trust = json_fields::field_line(source, "trust", 12);
    let annotations = source.get("trust_annotations").and_then(Value::as_bool) == Some(true);
    if annotations { format!("{trust} + annotations") } else { trust }
}

/// Formats the number of own and shared tools.
fn format_tool_count(source: &Value) -> String {
    let (own, shared) =
        (json_fields::field_line(source, "tools", 8), json_fields::field_line(source, "shared", 8));
    if shared.is_empty() { own } else { format!("{own} + {shared} shared") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::format_sources;

    #[test]
    fn problems_stand_below_with_their_fix() {
        let answer = json!({ "sources": [
            { "name": "builtin", "kind": "builtin", "state": "ok", "tools": 4, "prompts": 0,
              "resources": 0, "trust": "full", "problems": [] },
            { "name": "files", "kind": "mcp", "state": "ok", "tools": 9, "prompts": 0,
              "resources": 0, "trust": "first_use", "trust_annotations": true, "problems": [] },
            { "name": "research", "kind": "module", "state": "stale", "tools": 2, "prompts": 0,
              "resources": 0, "trust": "full", "stale_since": "2026-01-01T00:00:00.000Z",
              "problems": [{ "place": "http://h/manifest", "message": "no \u{1b}answer", "fix": "start it" }] },
        ] });
        let expected = "\
NAME      KIND     STATE                                 TOOLS  PROMPTS  RESOURCES  TRUST
builtin   builtin  ok                                    4      0        0          full
files     mcp      ok                                    9      0        0          first_use + annotations
research  module   stale since 2026-01-01T00:00:00.000Z  2      0        0          full

research:
  http://h/manifest: no \u{fffd}answer
    help: start it";
        assert_eq!(format_sources(&answer), expected);
        assert_eq!(format_sources(&json!({})), "no sources");
    }
}
