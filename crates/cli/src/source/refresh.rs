//! Implements `toolkeep source refresh`, which lists sources again.

use clap::Args;
use serde_json::{Value, json};

use super::format_sources;
use crate::name_suggestions;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, sanitize_text};
use cli_core::rest_client::RequestPath;
use cli_core::server_transport::SourceNeed;

/// Refresh the tool lists of all sources, or of one.
///
/// With a name, only that source is shown, and the command fails if the source cannot be listed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep source refresh
  toolkeep source refresh files")]
pub(crate) struct SourceRefreshArgs {
    /// Refresh only this source.
    #[arg(value_name = "NAME")]
    source: Option<String>,
}

impl SourceRefreshArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_sources(SourceNeed::List, ui).await;
        let body = self.source.as_ref().map_or(json!({}), |source| json!({ "source": source }));
        let mut answer = session
            .client
            .post_json(&RequestPath::from_segments("/v1/sources/refresh", &[]), &body)
            .await;
        if let (Err(failure), Some(name)) = (&answer, &self.source) {
            let failure = failure.clone();
            answer = Err(name_suggestions::with_name_suggestion(
                name_suggestions::SOURCE_NAMES,
                &session.client,
                name,
                failure,
            )
            .await);
        }
        session.close().await?;
        let mut answer: Value = answer?;
        let Some(name) = &self.source else {
            ui.print_result(&answer, || format_sources(&answer))?;
            return Ok(ExitStatus::Success);
        };
        if let Some(sources) = answer.get_mut("sources").and_then(Value::as_array_mut) {
            sources.retain(|source| source.get("name").and_then(Value::as_str) == Some(name));
        }
        ui.print_result(&answer, || format_sources(&answer))?;
        let state = json_fields::field_items(&answer, "sources")
            .first()
            .map(|it| json_fields::field_line(it, "state", 20));
        if state.as_deref() == Some("ok") {
            return Ok(ExitStatus::Success);
        }
        ui.print_note(&format!(
            "cannot refresh `{}`; the reason is shown above",
            sanitize_text(name)
        ));
        Ok(ExitStatus::Failed)
    }
}
