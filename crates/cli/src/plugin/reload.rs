//! Implements `toolkeep plugin reload`, which reloads all plugins or one.

use clap::Args;
use serde_json::{Value, json};

use super::text;
use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::value;

/// Have all plugins looked at now, or one: what changed is taken, what is broken is not.
///
/// A server looks by itself several times a second; this waits until it has. Exits with 1 where a change
/// was not taken.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep plugin reload
  toolkeep plugin reload web")]
pub(crate) struct Reload {
    /// Only this plugin.
    #[arg(value_name = "PLUGIN")]
    plugin: Option<String>,
}

impl Reload {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.list_sources(None, ui).await;
        let body = self.plugin.as_ref().map_or(json!({}), |plugin| json!({ "plugin": plugin }));
        let answer = session.client.post(&Path::new("/v1/plugins/reload", &[]), &body).await;
        session.end().await?;
        let answer: Value = answer?;
        ui.answer(&answer, || {
            let named = |key| match value::line(&answer, key, 400) {
                none if none.is_empty() => "none".to_owned(),
                names => names,
            };
            let (reloaded, failed) = (named("reloaded"), named("failed"));
            format!("reloaded: {reloaded}\nnot taken: {failed}\n\n{}", text(&answer))
        })?;
        let failed = !value::list(&answer, "failed").is_empty();
        Ok(if failed { Exit::Failed } else { Exit::Done })
    }
}
