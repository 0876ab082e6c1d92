//! Implements `toolkeep plugin settings`, which shows or changes settings.

use clap::Args;
use serde_json::{Map, Value, json};

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, as_yaml};

/// Show the settings of a plugin, or change some. Needs the right `sources:refresh`.
///
/// A VALUE is JSON where it is such, else a text; without one the setting is taken back.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep plugin settings canvas_tools
  toolkeep plugin settings canvas_tools canvas_directory=/srv/canvases
  toolkeep plugin settings web --off
  toolkeep plugin settings web --tool-off web_search")]
pub(crate) struct Settings {
    /// The plugin.
    #[arg(value_name = "PLUGIN")]
    plugin: String,
    /// Values of its own settings.
    #[arg(value_name = "NAME=VALUE")]
    values: Vec<String>,
    /// Switch it on.
    #[arg(long, conflicts_with = "off")]
    on: bool,
    /// Switch it off.
    #[arg(long)]
    off: bool,
    /// Switch one of its tools on.
    #[arg(long, value_name = "TOOL")]
    tool_on: Vec<String>,
    /// Switch one of its tools off.
    #[arg(long, value_name = "TOOL")]
    tool_off: Vec<String>,
}

impl Settings {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let changes = self.changes()?;
        let session = context.connect().await?;
        session.list_sources(None, ui).await;
        let path = Path::new("/v1/plugins", &[&self.plugin, "settings"]);
        let answer = if changes.is_empty() {
            session.client.get(&path).await
        } else {
            session.client.post(&path, &changes).await
        };
        session.end().await?;
        let answer: Value = answer?;
        let shown = as_yaml(answer.get("settings").unwrap_or(&Value::Null))?;
        ui.answer(&answer, || shown.trim_end().to_owned())?;
        Ok(Exit::Done)
    }

    fn changes(&self) -> Result<Map<String, Value>, Failure> {
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
                let told = format!("`{}` is no NAME=VALUE", pair.escape_debug());
                return Err(Failure::new(Exit::Usage, told));
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
