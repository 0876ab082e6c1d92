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
use cli_core::json_fields::{self, ProblemWidths};
use cli_core::printer::{Printer, format_table};

/// Widths of the problems of a plugin.
const PLUGIN_WIDTHS: ProblemWidths = ProblemWidths { name: 60, message: 300 };

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
    let below: String =
        plugins.iter().map(|plugin| json_fields::format_problems(plugin, PLUGIN_WIDTHS)).collect();
    format!("{}{below}", format_table(head, &rows))
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
