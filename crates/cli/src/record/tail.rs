//! Implements `toolkeep record tail`, which follows the record.
//!
//! It polls the list route; only the number of the newest record is remembered.

use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::list::{self, RecordRow};
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::{RequestPath, RestClient};

/// Records per page, and maximum pages per poll; older records are reported as skipped.
const PAGE: u16 = 1_000;
const MAX_PAGES_PER_POLL: usize = 10;

/// Follow the record: print the newest records, then each new one, oldest first. Stop with Ctrl-C.
///
/// Requires a running server and the right `records:read`, as owner.key has it. Prints one line per
/// record as JSON, one document per record as YAML.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record tail
  toolkeep record tail --tool calculator --lines 0
  toolkeep record tail -o json")]
pub(crate) struct RecordTailArgs {
    /// Show only calls of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Number of records to start with.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(0..=i64::from(PAGE)))]
    lines: u16,
    /// Polling interval in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(100..=60_000))]
    every_ms: u64,
}

/// The result of one poll.
#[derive(Debug, Default)]
struct NewRecords {
    /// Records, newest first.
    records: Vec<Value>,
    /// Whether records between these and those of the previous poll were skipped.
    has_gap: bool,
}

impl RecordTailArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let why = "no server is running, so no new records can arrive";
        let help = "start a server with `toolkeep serve`, or list the stored records with `toolkeep \
                    record list`";
        let session = context.connect().await?.require_running(why, help).await?;
        let followed = tokio::select! {
            followed = self.follow_records(&session.client, ui) => followed,
            _ = tokio::signal::ctrl_c() => Ok(()),
        };
        session.close().await?;
        followed.map(|()| ExitStatus::Success)
    }

    async fn follow_records(
        &self,
        client: &RestClient,
        ui: &mut Printer,
    ) -> Result<(), CommandError> {
        // At least one record is requested, because its number is the starting point.
        let first = client.get_json(&self.page_path(self.lines.max(1), None)).await?;
        let first = json_fields::field_items(&first, "records");
        let mut since = first.first().and_then(sequence_number);
        let shown = first.iter().take(usize::from(self.lines)).rev();
        if print_records(shown, ui)?.is_break() {
            return Ok(());
        }
        loop {
            tokio::time::sleep(Duration::from_millis(self.every_ms)).await;
            let fresh = self.fetch_new_records(client, since).await?;
            since = fresh.records.first().and_then(sequence_number).or(since);
            if fresh.has_gap {
                ui.print_note(
                    "some records were skipped; run `toolkeep record list` to see them all",
                );
            }
            if print_records(fresh.records.iter().rev(), ui)?.is_break() {
                return Ok(());
            }
        }
    }

    /// Fetches all records after `since`, up to the page limit.
    async fn fetch_new_records(
        &self,
        client: &RestClient,
        since: Option<u64>,
    ) -> Result<NewRecords, CommandError> {
        let mut fresh = NewRecords::default();
        let mut cursor = None;
        for _ in 0..MAX_PAGES_PER_POLL {
            let page = client.get_json(&self.page_path(PAGE, cursor.as_deref())).await?;
            let all = json_fields::field_items(&page, "records");
            let new = all.iter().take_while(|record| sequence_number(record) > since);
            let before = fresh.records.len();
            fresh.records.extend(new.cloned());
            cursor = page.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
            // A page can be empty and yet reach back to the previous poll.
            let reached = cursor.as_deref().and_then(|cursor| cursor.parse::<u64>().ok());
            let is_old = |reached| since.is_some_and(|since| reached <= since.saturating_add(1));
            let is_done = reached.is_none_or(is_old);
            if fresh.records.len() - before < all.len() || is_done {
                return Ok(fresh);
            }
        }
        fresh.has_gap = true;
        Ok(fresh)
    }

    fn page_path(&self, limit: u16, cursor: Option<&str>) -> RequestPath {
        let path = RequestPath::from_segments("/v1/records", &[]).with_query("limit", Some(limit));
        path.with_query("cursor", cursor).with_query("tool", self.tool.as_deref())
    }
}

fn sequence_number(record: &Value) -> Option<u64> {
    record.get("seq").and_then(Value::as_u64)
}

fn print_records<'a>(
    records: impl Iterator<Item = &'a Value>,
    ui: &mut Printer,
) -> Result<ControlFlow<()>, CommandError> {
    for record in records {
        if ui.print_item(record, || format_line(record))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Formats a record on one line with fixed columns.
fn format_line(record: &Value) -> String {
    let RecordRow { time, kind, call, tool, subject, result, .. } = list::record_row(record);
    let line = format!("{time:<24}  {kind:<7}  {call:<36}  {tool:<20}  {subject:<10}  {result}");
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests;
