//! Implements `toolkeep approval`: commands for calls that wait for an approval.

mod decide;
mod hunks;
mod list;
mod show;
mod watch;

use clap::Subcommand;
use serde_json::Value;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, facts};
use cli_core::value;

/// Decide about calls that wait for a person: see them, let them run, refuse them, change them.
#[derive(Debug, Subcommand)]
pub(crate) enum Approval {
    List(list::List),
    Show(show::Show),
    Approve(decide::Approve),
    Deny(decide::Deny),
    Edit(decide::Edit),
    Watch(watch::Watch),
}

impl Approval {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
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
fn text(approval: &Value) -> String {
    let asked = approval.get("asked_by").unwrap_or(&Value::Null);
    let agent = asked.get("agent").and_then(Value::as_bool).unwrap_or_default();
    let who = if agent { "an agent" } else { "a person" };
    let who = format!(
        "{} ({who}, key {}, {})",
        value::line(asked, "subject", 60),
        value::line(asked, "key", 40),
        value::line(asked, "level", 10)
    );
    let line = |key: &str| value::line(approval, key, 200);
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
    let arguments = facts(approval.get("arguments").unwrap_or(&Value::Null));
    text.extend(arguments.lines().map(|line| format!("  {line}")));
    let changes = approval.get("arguments").and_then(hunks::shown);
    if let Some(changes) = changes.filter(|changes| !changes.is_empty()) {
        text.push("changes".to_owned());
        text.extend(changes.lines().map(|line| format!("  {}", cli_core::ui::clean(line))));
    }
    for key in ["decided", "ended"] {
        let Some(part) = approval.get(key).filter(|part| part.is_object()) else { continue };
        text.push(key.to_owned());
        text.extend(facts(part).lines().map(|line| format!("  {line}")));
    }
    text.join("\n")
}

/// Formats a pending call as one row of a list.
fn row(approval: &Value) -> [String; 7] {
    let asked = approval.get("asked_by").unwrap_or(&Value::Null);
    let arguments = approval.get("arguments").map(Value::to_string).unwrap_or_default();
    [
        value::line(approval, "id", 36),
        value::line(approval, "state", 10),
        value::line(approval, "tool", 40),
        value::line(asked, "subject", 24),
        value::line(approval, "reason", 16),
        value::line(approval, "expires", 24),
        cli_core::ui::line(&cli_core::ui::clean(&arguments), 60),
    ]
}

#[cfg(test)]
mod tests;
