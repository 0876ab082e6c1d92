//! Implements `toolkeep plugin reload`, which reloads all plugins or one.

use clap::Args;
use serde_json::{Value, json};

use super::format_plugins;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;

/// Reload all plugins, or one. Valid changes are applied; an invalid plugin keeps its last valid
/// version.
///
/// A server checks the plugins by itself several times a second; this command waits for the result.
/// Exits with 1 if a change was not applied.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep plugin reload
  toolkeep plugin reload web")]
pub(crate) struct PluginReloadArgs {
    /// Reload only this plugin.
    #[arg(value_name = "PLUGIN")]
    plugin: Option<String>,
}

impl PluginReloadArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_listing(None, ui).await;
        let body = self.plugin.as_ref().map_or(json!({}), |plugin| json!({ "plugin": plugin }));
        let answer = session
            .client
            .post_json(&RequestPath::from_segments("/v1/plugins/reload", &[]), &body)
            .await;
        session.close().await?;
        let answer: Value = answer?;
        ui.print_result(&answer, || {
            let named = |key| match json_fields::field_line(&answer, key, 400) {
                none if none.is_empty() => "none".to_owned(),
                names => names,
            };
            let (reloaded, failed) = (named("reloaded"), named("failed"));
            format!("reloaded: {reloaded}\nnot reloaded: {failed}\n\n{}", format_plugins(&answer))
        })?;
        let failed = !json_fields::field_items(&answer, "failed").is_empty();
        Ok(if failed { ExitStatus::Failed } else { ExitStatus::Success })
    }
}
