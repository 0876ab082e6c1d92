//! Implements `toolkeep plugin settings`, which shows or changes settings.

use clap::Args;
use serde_json::{Map, Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::{Printer, to_yaml};
use cli_core::rest_client::RequestPath;

/// Show or change the settings of a plugin. Requires the right `sources:refresh`.
///
/// VALUE is parsed as JSON if possible, otherwise as text. An empty VALUE resets the setting.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep plugin settings canvas_tools
  toolkeep plugin settings canvas_tools canvas_directory=/srv/canvases
  toolkeep plugin settings web --off
  toolkeep plugin settings web --tool-off web_search")]
pub(crate) struct PluginSettingsArgs {
    /// Name of the plugin.
    #[arg(value_name = "PLUGIN")]
    plugin: String,
    /// Settings of the plugin to change.
    #[arg(value_name = "NAME=VALUE")]
    values: Vec<String>,
    /// Enable the plugin.
    #[arg(long, conflicts_with = "off")]
    on: bool,
    /// Disable the plugin.
    #[arg(long)]
    off: bool,
    /// Enable this tool of the plugin.
    #[arg(long, value_name = "TOOL")]
    tool_on: Vec<String>,
    /// Disable this tool of the plugin.
    #[arg(long, value_name = "TOOL")]
    tool_off: Vec<String>,
}

impl PluginSettingsArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let changes = self.collect_changes()?;
        let session = context.connect().await?;
        session.wait_for_listing(None, ui).await;
        let path = RequestPath::from_segments("/v1/plugins", &[&self.plugin, "settings"]);
        let answer = if changes.is_empty() {
            session.client.get_json(&path).await
        } else {
            session.client.post_json(&path, &changes).await
        };
        session.close().await?;
        let answer: Value = answer?;
        let shown = to_yaml(answer.get("settings").unwrap_or(&Value::Null))?;
        ui.print_result(&answer, || shown.trim_end().to_owned())?;
        Ok(ExitStatus::Success)
    }

    fn collect_changes(&self) -> Result<Map<String, Value>, CommandError> {
        let mut changes = Map::new();
        if self.on || self.off {
            changes.insert("enabled".to_owned(), json!(self.on));
        }
        let tools = |names: &[String], on: bool| {
            names.iter().map(|name| (name.clone(), json!({"enabled": on}))).collect::<Vec<_>>()
        };
        let overrides: Map<String, Value> =
            tools(&self.tool_on, true).into_iter().chain(tools(&self.tool_off, false)).collect();
        if !overrides.is_empty() {
            changes.insert("tool_overrides".to_owned(), overrides.into());
        }
        let mut custom = Map::new();
        for pair in &self.values {
            let Some((name, value)) = pair.split_once('=') else {
                let message = format!("`{}` is not NAME=VALUE", pair.escape_debug());
                return Err(CommandError::new(ExitStatus::UsageError, message));
            };
            let read = match value {
                "" => Value::Null,
                text => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
            };
            custom.insert(name.to_owned(), read);
        }
        if !custom.is_empty() {
            changes.insert("custom_config".to_owned(), custom.into());
        }
        Ok(changes)
    }
}
