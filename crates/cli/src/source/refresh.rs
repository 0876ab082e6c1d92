//! Implements `toolkeep source refresh`, which lists sources again.

use clap::Args;
use serde_json::{Value, json};

use super::text;
use crate::near;
use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, clean};
use cli_core::value;

/// Have all sources list their tools anew, or one.
///
/// With a name, only that source is shown, and the command fails where it could not be listed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep source refresh
  toolkeep source refresh files")]
pub(crate) struct Refresh {
    /// Only this source.
    #[arg(value_name = "NAME")]
    source: Option<String>,
}

impl Refresh {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.sources(SourceNeed::List, ui).await;
        let body = self.source.as_ref().map_or(json!({}), |source| json!({ "source": source }));
        let mut answer = session.client.post(&Path::new("/v1/sources/refresh", &[]), &body).await;
        if let (Err(failure), Some(name)) = (&answer, &self.source) {
            let failure = failure.clone();
            answer = Err(near::named(near::SOURCE, &session.client, name, failure).await);
        }
        session.end().await?;
        let mut answer: Value = answer?;
        let Some(name) = &self.source else {
            ui.answer(&answer, || text(&answer))?;
            return Ok(Exit::Done);
        };
        if let Some(sources) = answer.get_mut("sources").and_then(Value::as_array_mut) {
            sources.retain(|source| source.get("name").and_then(Value::as_str) == Some(name));
        }
        ui.answer(&answer, || text(&answer))?;
        let state = value::list(&answer, "sources").first().map(|it| value::line(it, "state", 20));
        if state.as_deref() == Some("ok") {
            return Ok(Exit::Done);
        }
        ui.note(&format!("`{}` was not listed anew; the lines above say why", clean(name)));
        Ok(Exit::Failed)
    }
}
