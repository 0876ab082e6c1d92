//! Implements `toolkeep tool count`, which counts the callable tools.

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::list;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::value;

/// Count the tools that the key may call.
///
/// The text is the number alone; the other forms also have it for each source.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool count
  toolkeep tool count --source files
  toolkeep tool count -o table")]
pub(crate) struct Count {
    /// Only tools of this source.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
}

#[derive(Debug, Serialize)]
struct Answer {
    tools: usize,
    /// Sources in the order of the list, only those with tools.
    sources: Vec<OfSource>,
}

#[derive(Debug, Serialize)]
struct OfSource {
    name: String,
    tools: usize,
}

impl Count {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.list_sources(self.source.as_deref(), ui).await;
        let listed = list::all(&session.client, list::Listing::default()).await;
        session.end().await?;
        let answer = self.of(&listed?);
        ui.answer(&answer, || answer.tools.to_string())?;
        Ok(Exit::Done)
    }

    fn of(&self, listed: &Value) -> Answer {
        let mut answer = Answer { tools: 0, sources: Vec::new() };
        for tool in value::list(listed, "tools") {
            let name = tool.get("source").and_then(Value::as_str).unwrap_or_default();
            if self.source.as_deref().is_some_and(|wanted| wanted != name) {
                continue;
            }
            answer.tools += 1;
            match answer.sources.iter_mut().find(|source| source.name == name) {
                Some(source) => source.tools += 1,
                None => answer.sources.push(OfSource { name: name.to_owned(), tools: 1 }),
            }
        }
        answer
    }
}
