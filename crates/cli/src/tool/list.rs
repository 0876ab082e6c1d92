//! Implements `toolkeep tool list`, which lists the callable tools.

use clap::Args;
use serde_json::Value;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus, pluralize};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};
use cli_core::rest_client::{RequestPath, RestClient};

/// Maximum number of fetched pages, so that a server cannot keep the command busy forever.
const MAX_PAGES: usize = 1_000;

/// List the tools that the key may call.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool list
  toolkeep tool list --source files
  toolkeep tool list --format anthropic
  toolkeep tool list --format anthropic --search provider
  toolkeep tool list --format gemini --losses")]
pub(crate) struct ToolListArgs {
    /// List only tools of this source.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Print JSON in the format of a provider: openai_chat, openai_chat_strict, openai_responses,
    /// openai_responses_strict, anthropic, gemini, gemini_per_tool, ollama, mcp.
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Defer the tools and say who searches them: provider, provider_regex (anthropic alone), or
    /// toolkeep; for openai_responses, openai_responses_strict and anthropic.
    #[arg(long, value_name = "WHO", requires = "format")]
    search: Option<String>,
    /// Include the schema details that the format cannot express.
    #[arg(long, requires = "format")]
    losses: bool,
}

impl ToolListArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_listing(self.source.as_deref(), ui).await;
        let what = ToolListOptions {
            format: self.format.as_deref(),
            source: self.source.as_deref(),
            search: self.search.as_deref(),
            includes_losses: self.losses,
        };
        let listed = fetch_all_tools(&session.client, what).await;
        // Printed first: stopping an own server takes as long as its sources do.
        let shown = listed.and_then(|answer| self.print_list(&answer, ui));
        session.close().await?;
        shown.map(|()| ExitStatus::Success)
    }

    fn print_list(&self, answer: &Value, ui: &mut Printer) -> Result<(), CommandError> {
        if self.format.is_none() {
            return ui.print_result(answer, || format_tools(answer));
        }
        ui.print_result(answer, || serde_json::to_string_pretty(answer).unwrap_or_default())
    }
}

/// The filter and format of a tool list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ToolListOptions<'a> {
    /// The provider format; native if `None`.
    pub(super) format: Option<&'a str>,
    /// The source; all if `None`.
    pub(super) source: Option<&'a str>,
    /// Who searches deferred tools; no tool is deferred if `None`.
    pub(super) search: Option<&'a str>,
    /// Whether losses are included.
    pub(super) includes_losses: bool,
}

/// Fetches the whole list, natively or in a provider's format, with all pages joined.
pub(super) async fn fetch_all_tools(
    client: &RestClient,
    options: ToolListOptions<'_>,
) -> Result<Value, CommandError> {
    let page = |cursor: Option<String>| {
        let path =
            RequestPath::from_segments("/v1/tools", &[]).with_query("format", options.format);
        let path = path.with_query("source", options.source).with_query("search", options.search);
        path.with_query("losses", options.includes_losses.then_some("true"))
            .with_query("cursor", cursor)
    };
    let mut answer = client.get_json(&page(None)).await?;
    for _ in 0..MAX_PAGES {
        let Some(cursor) = answer.get("next_cursor").and_then(Value::as_str) else { break };
        let mut next = client.get_json(&page(Some(cursor.to_owned()))).await?;
        for part in ["tools", "left_out", "names", "losses"] {
            append_page(answer.get_mut(part), next.get_mut(part).map(Value::take));
        }
        let cursor = next.get_mut("next_cursor").map_or(Value::Null, Value::take);
        if let Some(fields) = answer.as_object_mut() {
            fields.insert("next_cursor".to_owned(), cursor);
        }
    }
    Ok(answer)
}

/// Appends one page's part to that of the previous pages.
fn append_page(all: Option<&mut Value>, more: Option<Value>) {
    match (all, more) {
        (Some(Value::Array(all)), Some(Value::Array(more))) => all.extend(more),
        (Some(Value::Object(all)), Some(Value::Object(more))) => all.extend(more),
        _ => {}
    }
}

fn format_tools(answer: &Value) -> String {
    let tools = json_fields::field_items(answer, "tools");
    if tools.is_empty() {
        return "no tools; run `toolkeep source list` to see the state of the sources".to_owned();
    }
    let row = |tool: &Value| {
        let traits = tool.get("traits").unwrap_or(&Value::Null);
        [
            json_fields::field_line(tool, "name", 60),
            json_fields::field_line(tool, "source", 24),
            json_fields::field_line(traits, "level", 8),
            json_fields::field_line(traits, "safety", 12),
            json_fields::field_line(tool, "description", 60),
        ]
    };
    let rows: Vec<_> = tools.iter().map(row).collect();
    let count = format!("{} {}", rows.len(), pluralize(rows.len(), "tool"));
    format!(
        "{}\n\n{count}",
        format_table(["NAME", "SOURCE", "LEVEL", "SAFETY", "DESCRIPTION"], &rows)
    )
}
