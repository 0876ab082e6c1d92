//! Implements `toolkeep tool export`, which writes the tools in a provider's format.

use std::path::{Path, PathBuf};

use clap::Args;
use formats::tool_search::ToolSearchError;
use formats::{ProviderFormat, ToolSearcher};
use serde_json::{Value, json};

use super::list;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus, pluralize};
use cli_core::json_fields;
use cli_core::printer::{Printer, sanitize_text};
use rooted_fs::file_replacement::replace_file;

/// Maximum number of notes of one kind.
const MAX_NOTES: usize = 50;

/// Export the tool list in the format of a model provider, as the `tools` field of a request.
///
/// FILE receives JSON and is replaced atomically. Standard error lists omitted tools, schema
/// details that the format cannot express, and renamed tools.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool export --format anthropic
  toolkeep tool export --format openai_chat tools.json
  toolkeep tool export --format openai_responses --search provider tools.json
  toolkeep tool export --format openai_chat --source files tools.json
  toolkeep tool export --format gemini tools.json -o json")]
pub(crate) struct ToolExportArgs {
    /// Format of the provider: openai_chat, openai_chat_strict, openai_responses,
    /// openai_responses_strict, anthropic, gemini, gemini_per_tool, ollama, mcp.
    #[arg(long, value_name = "FORMAT")]
    format: String,
    /// Export only tools of this source.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Defer the tools and say who searches them: provider, provider_regex (anthropic alone), or
    /// toolkeep; for openai_responses, openai_responses_strict and anthropic.
    #[arg(long, value_name = "WHO")]
    search: Option<String>,
    /// File to write; an existing file is replaced [default: standard output].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl ToolExportArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        // Parsed before anything is started: an invalid line costs nothing.
        let format: ProviderFormat =
            self.format.parse().map_err(|error: formats::UnknownFormatError| {
                CommandError::new(ExitStatus::UsageError, error.to_string())
                    .with_help("run `toolkeep tool export --help` to see the formats")
            })?;
        check_search(self.search.as_deref(), format)?;
        let session = context.connect().await?;
        session.wait_for_listing(self.source.as_deref(), ui).await;
        let word = format.to_string();
        let source = self.source.as_deref();
        let what = list::ToolListOptions {
            format: Some(&word),
            source,
            search: self.search.as_deref(),
            includes_losses: true,
        };
        let listed = list::fetch_all_tools(&session.client, what).await;
        session.close().await?;
        let mut listed = listed?;
        let tools = listed.get_mut("tools").map_or_else(|| json!([]), Value::take);
        let text = serde_json::to_string_pretty(&tools).unwrap_or_default() + "\n";
        print_notes(&listed, ui);
        let Some(file) = &self.file else {
            ui.print_result(&tools, || text)?;
            return Ok(ExitStatus::Success);
        };
        write_file(file, &text)?;
        let count = listed.get("names").and_then(Value::as_object).map_or(0, serde_json::Map::len);
        let answer = json!({ "file": file, "format": format.to_string(), "tools": count,
            "left_out": listed.get("left_out"), "losses": listed.get("losses"),
            "names": listed.get("names") });
        ui.print_result(&answer, || {
            let file = sanitize_text(&file.display().to_string());
            format!("{file}: {count} {} as {format}", pluralize(count, "tool"))
        })?;
        Ok(ExitStatus::Success)
    }
}

fn check_search(search: Option<&str>, format: ProviderFormat) -> Result<(), CommandError> {
    let Some(word) = search else { return Ok(()) };
    let searcher: Result<ToolSearcher, ToolSearchError> = word.parse();
    searcher.and_then(|searcher| searcher.check_format(format)).map_err(|error| {
        CommandError::new(ExitStatus::UsageError, error.to_string())
            .with_help("run `toolkeep tool export --help` to see the searches")
    })
}

fn write_file(file: &Path, text: &str) -> Result<(), CommandError> {
    replace_file(file, text.as_bytes()).map_err(|error| {
        let file = sanitize_text(&file.display().to_string());
        CommandError::new(ExitStatus::Failed, format!("cannot write `{file}`: {error}"))
            .with_help("choose a file in an existing directory that you may write to")
    })
}

/// Prints what users of the list must know and cannot see in it.
fn print_notes(listed: &Value, ui: &mut Printer) {
    let left_out = json_fields::field_items(listed, "left_out").iter().map(|one| {
        let place = format_location(one);
        format!(
            "omitted: `{}`: at {place}: {}",
            json_fields::field_line(one, "name", 80),
            json_fields::field_line(one, "why", 200)
        )
    });
    print_limited(left_out, "omitted tools", ui);
    let losses = object_fields(listed, "losses").flat_map(|(tool, losses)| {
        let losses = losses.as_array().map_or(&[][..], Vec::as_slice);
        losses.iter().map(move |loss| {
            let place = format_location(loss);
            format!(
                "schema reduced: `{}`: at {place}: {}",
                sanitize_text(tool),
                json_fields::field_line(loss, "why", 200)
            )
        })
    });
    print_limited(losses, "losses", ui);
    let names = object_fields(listed, "names").filter_map(|(alias, name)| {
        let name = name.as_str().filter(|name| name != alias)?;
        Some(format!("renamed: `{1}` to `{0}`", sanitize_text(alias), sanitize_text(name)))
    });
    print_limited(names, "renamed tools", ui);
}

/// Formats a location in a schema; the root has no name.
fn format_location(entry: &Value) -> String {
    let place = json_fields::field_line(entry, "place", 80);
    if place.is_empty() { "its root".to_owned() } else { format!("`{place}`") }
}

fn object_fields<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(key).and_then(Value::as_object).into_iter().flatten()
}

fn print_limited(mut lines: impl Iterator<Item = String>, what: &str, ui: &mut Printer) {
    for line in lines.by_ref().take(MAX_NOTES) {
        ui.print_note(&line);
    }
    let rest = lines.count();
    if rest > 0 {
        ui.print_note(&format!("and {rest} more {what}"));
    }
}
