//! Implements `toolkeep tool export`, which writes the tools in a provider's format.

use std::path::{Path, PathBuf};

use clap::Args;
use formats::Format;
use serde_json::{Value, json};

use super::list;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure, plural};
use cli_core::replace::replace;
use cli_core::ui::{Ui, clean};
use cli_core::value;

/// Maximum number of notes of one kind.
const TOLD: usize = 50;

/// Write the list as a provider takes it: the `tools` of a request, and nothing else.
///
/// Onto a file it is JSON, put in place whole or not at all. Standard error tells which tools are left
/// out, what the form does not say as the tools' own schemas do, and which names stand for others.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool export --format anthropic
  toolkeep tool export --format openai_chat tools.json
  toolkeep tool export --format openai_chat --source files tools.json
  toolkeep tool export --format gemini tools.json -o json")]
pub(crate) struct Export {
    /// The form: openai_chat, openai_chat_strict, openai_responses, openai_responses_strict, anthropic,
    /// gemini, gemini_per_tool, ollama, mcp.
    #[arg(long, value_name = "FORMAT")]
    format: String,
    /// Only tools of this source.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// The file, which may be there already [default: standard output].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Export {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        // Parsed before anything is started: an invalid line costs nothing.
        let format: Format = self.format.parse().map_err(|error: formats::UnknownFormat| {
            Failure::new(Exit::Usage, error.to_string())
                .fix("`toolkeep tool export --help` lists them")
        })?;
        let session = context.connect().await?;
        session.list_sources(self.source.as_deref(), ui).await;
        let word = format.to_string();
        let source = self.source.as_deref();
        let what = list::Listing { format: Some(&word), source, losses: true };
        let listed = list::all(&session.client, what).await;
        session.end().await?;
        let mut listed = listed?;
        let tools = listed.get_mut("tools").map_or_else(|| json!([]), Value::take);
        let text = serde_json::to_string_pretty(&tools).unwrap_or_default() + "\n";
        tell(&listed, ui);
        let Some(file) = &self.file else {
            ui.answer(&tools, || text)?;
            return Ok(Exit::Done);
        };
        write(file, &text)?;
        let count = listed.get("names").and_then(Value::as_object).map_or(0, serde_json::Map::len);
        let answer = json!({ "file": file, "format": format.to_string(), "tools": count,
            "left_out": listed.get("left_out"), "losses": listed.get("losses"),
            "names": listed.get("names") });
        ui.answer(&answer, || {
            let file = clean(&file.display().to_string());
            format!("{file}: {count} {} as {format}", plural(count, "tool"))
        })?;
        Ok(Exit::Done)
    }
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    replace(file, text.as_bytes()).map_err(|error| {
        let file = clean(&file.display().to_string());
        Failure::new(Exit::Failed, format!("`{file}` cannot be written: {error}"))
            .fix("name a file in a folder that is there and that you may write to")
    })
}

/// Prints what users of the list must know and cannot see in it.
fn tell(listed: &Value, ui: &mut Ui) {
    let left_out = value::list(listed, "left_out").iter().map(|one| {
        let place = place(one);
        format!(
            "left out: `{}`: at {place}: {}",
            value::line(one, "name", 80),
            value::line(one, "why", 200)
        )
    });
    some(left_out, "tools that are left out", ui);
    let losses = fields(listed, "losses").flat_map(|(tool, losses)| {
        let losses = losses.as_array().map_or(&[][..], Vec::as_slice);
        losses.iter().map(move |loss| {
            let place = place(loss);
            format!(
                "not as its schema: `{}`: at {place}: {}",
                clean(tool),
                value::line(loss, "why", 200)
            )
        })
    });
    some(losses, "losses", ui);
    let names = fields(listed, "names").filter_map(|(alias, name)| {
        let name = name.as_str().filter(|name| name != alias)?;
        Some(format!("renamed: `{}` stands for `{}`", clean(alias), clean(name)))
    });
    some(names, "names that stand for others", ui);
}

/// Formats a location in a schema; the root has no name.
fn place(told: &Value) -> String {
    let place = value::line(told, "place", 80);
    if place.is_empty() { "its root".to_owned() } else { format!("`{place}`") }
}

fn fields<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(key).and_then(Value::as_object).into_iter().flatten()
}

fn some(mut lines: impl Iterator<Item = String>, what: &str, ui: &mut Ui) {
    for line in lines.by_ref().take(TOLD) {
        ui.note(&line);
    }
    let rest = lines.count();
    if rest > 0 {
        ui.note(&format!("and {rest} more {what}"));
    }
}
