//! Implements `toolkeep pin`: commands that review tool definitions.

mod decide;
mod diff;
mod list;
mod show;

use clap::Subcommand;
use serde_json::Value;

pub(crate) use diff::format_change;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, sanitize_text};
use cli_core::rest_client::{RequestPath, RestClient};
use cli_core::server_transport::SourceNeed;

/// List, show, compare, approve and reject pinned tool definitions.
///
/// A tool whose definition waits for approval is not listed and cannot be called. Approving and
/// rejecting require the right `pins:write`, as owner.key has it.
#[derive(Debug, Subcommand)]
pub(crate) enum PinCommand {
    List(list::PinListArgs),
    Show(show::PinShowArgs),
    Diff(diff::PinDiffArgs),
    Approve(decide::PinApproveArgs),
    Reject(decide::PinRejectArgs),
}

impl PinCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Show(command) => command.run(context, ui).await,
            Self::Diff(command) => command.run(context, ui).await,
            Self::Approve(command) => command.run(context, ui).await,
            Self::Reject(command) => command.run(context, ui).await,
        }
    }
}

/// The tool that a pin is for, as its source names it.
#[derive(Debug)]
struct PinId {
    source: String,
    tool: String,
}

/// Resolves `SOURCE/TOOL`, or the name of a tool that only one source has.
async fn resolve_tool_name(client: &RestClient, name: &str) -> Result<PinId, CommandError> {
    if let Some((source, tool)) = name.split_once('/') {
        return Ok(PinId { source: source.to_owned(), tool: tool.to_owned() });
    }
    let mut found = Vec::new();
    for pin in fetch_all_pins(client, None, None).await? {
        if json_fields::field_line(&pin, "tool", 200) == name {
            found.push(json_fields::field_line(&pin, "source", 200));
        }
    }
    match found.as_slice() {
        [source] => Ok(PinId { source: source.clone(), tool: name.to_owned() }),
        [] => {
            let message = format!("no pinned definition of `{}`", sanitize_text(name));
            Err(CommandError::new(ExitStatus::Refused, message)
                .with_help("run `toolkeep pin list` to see all pinned tools"))
        }
        many => {
            let message = format!(
                "several sources have a tool `{}`: {}",
                sanitize_text(name),
                many.join(", ")
            );
            Err(CommandError::new(ExitStatus::UsageError, message).with_help("write `SOURCE/TOOL`"))
        }
    }
}

/// Fetches all matching pins, page by page.
pub(crate) async fn fetch_all_pins(
    client: &RestClient,
    source: Option<&str>,
    state: Option<&str>,
) -> Result<Vec<Value>, CommandError> {
    let (mut pins, mut cursor) = (Vec::new(), None);
    loop {
        let path = RequestPath::from_segments("/v1/pins", &[])
            .with_query("source", source)
            .with_query("state", state);
        let page = client.get_json(&path.with_query("cursor", cursor.as_deref())).await?;
        pins.extend(json_fields::field_items(&page, "pins").iter().cloned());
        match page.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(pins),
        }
    }
}

/// The source needed for `SOURCE/TOOL`, or all sources for a bare name.
fn source_need(tool: &str) -> SourceNeed<'_> {
    tool.split_once('/').map_or(SourceNeed::All, |(source, _)| SourceNeed::Source(source))
}

/// Fetches the pin of the tool that a command names.
async fn fetch_pin_by_name(
    context: &CommandContext<'_>,
    tool: &str,
    ui: &mut Printer,
) -> Result<Value, CommandError> {
    let session = context.connect().await?;
    session.wait_for_sources(source_need(tool), ui).await;
    let pin = match resolve_tool_name(&session.client, tool).await {
        Ok(id) => fetch_pin(&session.client, &id).await,
        Err(failure) => Err(failure),
    };
    session.close().await?;
    pin
}

async fn fetch_pin(client: &RestClient, id: &PinId) -> Result<Value, CommandError> {
    client.get_json(&RequestPath::from_segments("/v1/pins", &[&id.source, &id.tool])).await
}

/// Returns a field of a pin unless it is null.
fn non_null_field<'a>(pin: &'a Value, key: &str) -> Option<&'a Value> {
    pin.get(key).filter(|part| !part.is_null())
}

/// Formats a value, sanitized, on one or several lines.
fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => sanitize_text(text),
        other => sanitize_text(&serde_json::to_string_pretty(other).unwrap_or_default()),
    }
}
