//! Implements `toolkeep tool list`, which lists the callable tools.

use clap::Args;
use serde_json::Value;

use cli_core::client::{Client, Path};
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure, plural};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// Maximum number of fetched pages, so that a server cannot keep the command busy forever.
const PAGES: usize = 1_000;

/// List the tools that the key may call.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool list
  toolkeep tool list --source files
  toolkeep tool list --format anthropic
  toolkeep tool list --format gemini --losses")]
pub(crate) struct List {
    /// Only tools of this source.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// In the form of a provider, as JSON: openai_chat, openai_chat_strict, openai_responses,
    /// openai_responses_strict, anthropic, gemini, gemini_per_tool, ollama, mcp.
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Also what the form does not say as the tools' own schemas do.
    #[arg(long, requires = "format")]
    losses: bool,
}

impl List {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.list_sources(self.source.as_deref(), ui).await;
        let what = Listing {
            format: self.format.as_deref(),
            source: self.source.as_deref(),
            losses: self.losses,
        };
        let listed = all(&session.client, what).await;
        // Printed first: stopping an own server takes as long as its sources do.
        let shown = listed.and_then(|answer| self.show(&answer, ui));
        session.end().await?;
        shown.map(|()| Exit::Done)
    }

    fn show(&self, answer: &Value, ui: &mut Ui) -> Result<(), Failure> {
        if self.format.is_none() {
            return ui.answer(answer, || text(answer));
        }
        ui.answer(answer, || serde_json::to_string_pretty(answer).unwrap_or_default())
    }
}

/// The filter and format of a tool list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Listing<'a> {
    /// The provider format; native if `None`.
    pub(super) format: Option<&'a str>,
    /// The source; all if `None`.
    pub(super) source: Option<&'a str>,
    /// Whether losses are included.
    pub(super) losses: bool,
}

/// Fetches the whole list, natively or in a provider's format, with all pages joined.
pub(super) async fn all(client: &Client, what: Listing<'_>) -> Result<Value, Failure> {
    let page = |cursor: Option<String>| {
        let path = Path::new("/v1/tools", &[]).with("format", what.format);
        let path = path.with("source", what.source);
        path.with("losses", what.losses.then_some("true")).with("cursor", cursor)
    };
    let mut answer = client.get(&page(None)).await?;
    for _ in 0..PAGES {
        let Some(cursor) = answer.get("next_cursor").and_then(Value::as_str) else { break };
        let mut next = client.get(&page(Some(cursor.to_owned()))).await?;
        for part in ["tools", "left_out", "names", "losses"] {
            join(answer.get_mut(part), next.get_mut(part).map(Value::take));
        }
        let cursor = next.get_mut("next_cursor").map_or(Value::Null, Value::take);
        if let Some(fields) = answer.as_object_mut() {
            fields.insert("next_cursor".to_owned(), cursor);
        }
    }
    Ok(answer)
}

/// Appends one page's part to that of the previous pages.
fn join(all: Option<&mut Value>, more: Option<Value>) {
    match (all, more) {
        (Some(Value::Array(all)), Some(Value::Array(more))) => all.extend(more),
        (Some(Value::Object(all)), Some(Value::Object(more))) => all.extend(more),
        _ => {}
    }
}

fn text(answer: &Value) -> String {
    let tools = value::list(answer, "tools");
    if tools.is_empty() {
        return "no tools; `toolkeep source list` tells how the sources stand".to_owned();
    }
    let row = |tool: &Value| {
        let traits = tool.get("traits").unwrap_or(&Value::Null);
        [
            value::line(tool, "name", 60),
            value::line(tool, "source", 24),
            value::line(traits, "level", 8),
            value::line(traits, "safety", 12),
            value::line(tool, "description", 60),
        ]
    };
    let rows: Vec<_> = tools.iter().map(row).collect();
    let count = format!("{} {}", rows.len(), plural(rows.len(), "tool"));
    format!("{}\n\n{count}", table(["NAME", "SOURCE", "LEVEL", "SAFETY", "DESCRIPTION"], &rows))
}
