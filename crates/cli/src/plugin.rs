//! Implements `toolkeep plugin`: commands for plugins.

mod begin;
mod list;
mod reload;
mod schema;
mod settings;
mod test;

use clap::Subcommand;
use serde_json::Value;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// See the plugins; have them looked at; set them; begin one and try it.
#[derive(Debug, Subcommand)]
pub(crate) enum Plugin {
    List(list::List),
    Reload(reload::Reload),
    Settings(settings::Settings),
    New(begin::New),
    Test(test::Test),
    Schema(schema::Schema),
}

impl Plugin {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Reload(command) => command.run(context, ui).await,
            Self::Settings(command) => command.run(context, ui).await,
            Self::New(command) => command.run(ui),
            Self::Test(command) => command.run(context, ui).await,
            Self::Schema(schema::Schema {}) => schema::Schema::print(ui),
        }
    }
}

/// Formats the plugins as a table, followed by their problems.
fn text(answer: &Value) -> String {
    let plugins = value::list(answer, "plugins");
    if plugins.is_empty() {
        return "no plugins".to_owned();
    }
    let row = |plugin: &Value| {
        let line = |key, width| value::line(plugin, key, width);
        let tools = value::list(plugin, "tools");
        let on = tools.iter().filter(|tool| tool.get("enabled") == Some(&Value::Bool(true)));
        let count = format!("{} of {}", on.count(), tools.len());
        let enabled = if line("enabled", 8) == "true" { "on" } else { "off" };
        [line("name", 60), line("version", 16), line("kind", 8), enabled.to_owned(), count]
    };
    let rows: Vec<_> = plugins.iter().map(row).collect();
    let head = ["PLUGIN", "VERSION", "KIND", "IS", "TOOLS"];
    format!("{}{}", table(head, &rows), plugins.iter().map(below).collect::<String>())
}

fn below(plugin: &Value) -> String {
    let problems = value::list(plugin, "problems").iter().map(|problem| {
        let (place, message) =
            (value::line(problem, "place", 100), value::line(problem, "message", 300));
        let fix = value::line(problem, "fix", 300);
        let fix = if fix.is_empty() { fix } else { format!("\n    = {fix}") };
        format!("  {place}: {message}{fix}")
    });
    let problems: Vec<_> = problems.collect();
    if problems.is_empty() {
        return String::new();
    }
    format!("\n\n{}:\n{}", value::line(plugin, "name", 60), problems.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

    #[test]
    fn problems_stand_below_with_their_fix() {
        let answer = json!({ "plugins": [
            { "name": "web", "version": "1.0.0", "kind": "python", "enabled": true,
              "tools": [{ "name": "a", "enabled": true }, { "name": "b", "enabled": false }],
              "problems": [{ "place": "web/manifest.json", "message": "no \u{1b}net", "fix": "grant it" }] },
        ] });
        let expected = "\
PLUGIN  VERSION  KIND    IS  TOOLS
web     1.0.0    python  on  1 of 2

web:
  web/manifest.json: no \u{fffd}net
    = grant it";
        assert_eq!(text(&answer), expected);
        assert_eq!(text(&json!({})), "no plugins");
    }
}
