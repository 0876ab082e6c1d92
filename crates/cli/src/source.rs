//! Implements `toolkeep source`: commands for tool sources.

mod add;
mod back;
mod list;
mod login;
mod logout;
mod refresh;

use clap::Subcommand;
use serde_json::Value;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// Add a source of tools; see how they all stand; have them list their tools anew; log in to them.
#[derive(Debug, Subcommand)]
pub(crate) enum Source {
    List(list::List),
    Add(Box<add::Add>),
    Refresh(refresh::Refresh),
    Login(login::Login),
    Logout(logout::Logout),
}

impl Source {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Add(command) => command.run(context, ui),
            Self::Refresh(command) => command.run(context, ui).await,
            Self::Login(command) => command.run(context, ui).await,
            Self::Logout(command) => command.run(context, ui).await,
        }
    }
}

/// Formats the sources as a table, followed by their problems.
fn text(answer: &Value) -> String {
    let sources = value::list(answer, "sources");
    if sources.is_empty() {
        return "no sources".to_owned();
    }
    let row = |source: &Value| {
        let since = value::line(source, "stale_since", 24);
        let state = value::line(source, "state", 16);
        let state = if since.is_empty() { state } else { format!("{state} since {since}") };
        [
            value::line(source, "name", 40),
            value::line(source, "kind", 16),
            state,
            tools(source),
            value::line(source, "prompts", 8),
            value::line(source, "resources", 8),
            trust(source),
        ]
    };
    let rows: Vec<_> = sources.iter().map(row).collect();
    let head = ["NAME", "KIND", "STATE", "TOOLS", "PROMPTS", "RESOURCES", "TRUST"];
    let below: String = sources.iter().map(problems).collect();
    let waits = sources.iter().filter_map(|source| {
        let count = source.get("waiting").and_then(Value::as_u64).filter(|count| *count > 0)?;
        Some(format!("{count} of {}", value::line(source, "name", 40)))
    });
    let waits: Vec<_> = waits.collect();
    let look = if waits.is_empty() {
        String::new()
    } else {
        format!("\n\nwaiting to be looked at: {}; `toolkeep pin list`", waits.join(", "))
    };
    format!("{}{below}{look}", table(head, &rows))
}

/// Formats the trust in a source and in its annotations.
fn trust(source: &Value) -> String {
    let trust = value::line(source, "trust", 12);
    let annotations = source.get("trust_annotations").and_then(Value::as_bool) == Some(true);
    if annotations { format!("{trust} + annotations") } else { trust }
}

/// Formats the number of own and shared tools.
fn tools(source: &Value) -> String {
    let (own, shared) = (value::line(source, "tools", 8), value::line(source, "shared", 8));
    if shared.is_empty() { own } else { format!("{own} + {shared} shared") }
}

fn problems(source: &Value) -> String {
    let problems: Vec<_> = value::list(source, "problems").iter().map(problem).collect();
    if problems.is_empty() {
        return String::new();
    }
    format!("\n\n{}:\n{}", value::line(source, "name", 40), problems.join("\n"))
}

fn problem(problem: &Value) -> String {
    let (place, message) =
        (value::line(problem, "place", 100), value::line(problem, "message", 5_000));
    let fix = value::line(problem, "fix", 300);
    let fix = if fix.is_empty() { fix } else { format!("\n    = {fix}") };
    format!("  {place}: {message}{fix}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

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
    = start it";
        assert_eq!(text(&answer), expected);
        assert_eq!(text(&json!({})), "no sources");
    }
}
