//! Implements `toolkeep plugin`: commands for plugins.

mod list;
mod new_plugin;
mod reload;
mod schema;
mod settings;
mod test;

use clap::Subcommand;
use serde_json::Value;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};

/// List, reload, configure, create and test plugins.
#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    List(list::PluginListArgs),
    Reload(reload::PluginReloadArgs),
    Settings(settings::PluginSettingsArgs),
    New(new_plugin::PluginNewArgs),
    Test(test::PluginTestArgs),
    Schema(schema::PluginSchemaArgs),
}

impl PluginCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Reload(command) => command.run(context, ui).await,
            Self::Settings(command) => command.run(context, ui).await,
            Self::New(command) => command.run(ui),
            Self::Test(command) => command.run(context, ui).await,
            Self::Schema(schema::PluginSchemaArgs {}) => schema::PluginSchemaArgs::run(ui),
        }
    }
}

/// Formats the plugins as a table, followed by their problems.
fn format_plugins(answer: &Value) -> String {
    let plugins = json_fields::field_items(answer, "plugins");
    if plugins.is_empty() {
        return "no plugins".to_owned();
    }
    let row = |plugin: &Value| {
        let line = |key, width| json_fields::field_line(plugin, key, width);
        let tools = json_fields::field_items(plugin, "tools");
        let on = tools.iter().filter(|tool| tool.get("enabled") == Some(&Value::Bool(true)));
        let count = format!("{} of {}", on.count(), tools.len());
        let enabled = if line("enabled", 8) == "true" { "on" } else { "off" };
        [line("name", 60), line("version", 16), line("kind", 8), enabled.to_owned(), count]
    };
    let rows: Vec<_> = plugins.iter().map(row).collect();
    let head = ["PLUGIN", "VERSION", "KIND", "IS", "TOOLS"];
    format!(
        "{}{}",
        format_table(head, &rows),
        plugins.iter().map(format_problems).collect::<String>()
    )
}

fn format_problems(plugin: &Value) -> String {
    let problems = json_fields::field_items(plugin, "problems").iter().map(|problem| {
        let (place, message) = (
            json_fields::field_line(problem, "place", 100),
            json_fields::field_line(problem, "message", 300),
        );
        let fix = json_fields::field_line(problem, "fix", 300);
        let fix = if fix.is_empty() { fix } else { format!("\n    help: {fix}") };
        format!("  {place}: {message}{fix}")
    });
    let problems: Vec<_> = problems.collect();
    if problems.is_empty() {
        return String::new();
    }
    format!("\n\n{}:\n{}", json_fields::field_line(plugin, "name", 60), problems.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::format_plugins;

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
    help: grant it";
        assert_eq!(format_plugins(&answer), expected);
        assert_eq!(format_plugins(&json!({})), "no plugins");
    }
}
