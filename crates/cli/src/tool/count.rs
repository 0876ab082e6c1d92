//! Implements `toolkeep tool count`, which counts the callable tools.

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::list;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;

/// Count the tools that the key may call.
///
/// Text output is the number alone; other formats include the count of each source.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool count
  toolkeep tool count --source files
  toolkeep tool count -o table")]
pub(crate) struct ToolCountArgs {
    /// Count only tools of this source.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
}

#[derive(Debug, Serialize)]
struct ToolCount {
    tools: usize,
    /// Sources in the order of the list, only those with tools.
    sources: Vec<SourceToolCount>,
}

#[derive(Debug, Serialize)]
struct SourceToolCount {
    name: String,
    tools: usize,
}

impl ToolCountArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_listing(self.source.as_deref(), ui).await;
        let listed = list::fetch_all_tools(&session.client, list::ToolListOptions::default()).await;
        session.close().await?;
        let answer = self.count_tools(&listed?);
        ui.print_result(&answer, || answer.tools.to_string())?;
        Ok(ExitStatus::Success)
    }

    fn count_tools(&self, listed: &Value) -> ToolCount {
        let mut answer = ToolCount { tools: 0, sources: Vec::new() };
        for tool in json_fields::field_items(listed, "tools") {
            let name = tool.get("source").and_then(Value::as_str).unwrap_or_default();
            if self.source.as_deref().is_some_and(|wanted| wanted != name) {
                continue;
            }
            answer.tools += 1;
            match answer.sources.iter_mut().find(|source| source.name == name) {
                Some(source) => source.tools += 1,
                None => answer.sources.push(SourceToolCount { name: name.to_owned(), tools: 1 }),
            }
        }
        answer
    }
}
