//! Implements `toolkeep record tail`, which follows the record.
//!
//! It polls the list route; only the number of the newest record is remembered.

use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::list;
use cli_core::client::{Client, Path};
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::value;

/// Records per page, and maximum pages per poll; older records are reported as skipped.
const PAGE: u16 = 1_000;
const PAGES: usize = 10;

/// Follow the record: show the newest, then each new one as it is written, oldest first. Ends with
/// ctrl-c.
///
/// Needs a server that runs, and a key with the right `records:read`, as owner.key has it. As JSON each
/// record is one line, as YAML one document.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record tail
  toolkeep record tail --tool calculator --lines 0
  toolkeep record tail -o json")]
pub(crate) struct Tail {
    /// Only calls of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// How many records to begin with.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(0..=i64::from(PAGE)))]
    lines: u16,
    /// How often to look, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(100..=60_000))]
    every_ms: u64,
}

/// The result of one poll.
#[derive(Debug, Default)]
struct Fresh {
    /// Records, newest first.
    records: Vec<Value>,
    /// Whether records between these and those of the previous poll were skipped.
    more: bool,
}

impl Tail {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        // An own server would lock the data directory and keep out everyone who might write a
        // record.
        let followed = if session.is_own() {
            let message = "no server runs here, so nothing new can come";
            let fix =
                "start one with `toolkeep serve`, or read what is there: `toolkeep record list`";
            Err(Failure::new(Exit::NoServer, message).fix(fix))
        } else {
            tokio::select! {
                followed = self.follow(&session.client, ui) => followed,
                _ = tokio::signal::ctrl_c() => Ok(()),
            }
        };
        session.end().await?;
        followed.map(|()| Exit::Done)
    }

    async fn follow(&self, client: &Client, ui: &mut Ui) -> Result<(), Failure> {
        // At least one record is requested, because its number is the starting point.
        let first = client.get(&self.page(self.lines.max(1), None)).await?;
        let first = value::list(&first, "records");
        let mut since = first.first().and_then(seq);
        let shown = first.iter().take(usize::from(self.lines)).rev();
        if show(shown, ui)?.is_break() {
            return Ok(());
        }
        loop {
            tokio::time::sleep(Duration::from_millis(self.every_ms)).await;
            let fresh = self.fresh(client, since).await?;
            since = fresh.records.first().and_then(seq).or(since);
            if fresh.more {
                ui.note("more records came than are shown; `toolkeep record list` has them all");
            }
            if show(fresh.records.iter().rev(), ui)?.is_break() {
                return Ok(());
            }
        }
    }

    /// Fetches all records after `since`, up to the page limit.
    async fn fresh(&self, client: &Client, since: Option<u64>) -> Result<Fresh, Failure> {
        let mut fresh = Fresh::default();
        let mut cursor = None;
        for _ in 0..PAGES {
            let page = client.get(&self.page(PAGE, cursor.as_deref())).await?;
            let all = value::list(&page, "records");
            let new = all.iter().take_while(|record| seq(record) > since);
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
        fresh.more = true;
        Ok(fresh)
    }

    fn page(&self, limit: u16, cursor: Option<&str>) -> Path {
        let path = Path::new("/v1/records", &[]).with("limit", Some(limit));
        path.with("cursor", cursor).with("tool", self.tool.as_deref())
    }
}

fn seq(record: &Value) -> Option<u64> {
    record.get("seq").and_then(Value::as_u64)
}

fn show<'a>(
    records: impl Iterator<Item = &'a Value>,
    ui: &mut Ui,
) -> Result<ControlFlow<()>, Failure> {
    for record in records {
        if ui.stream(record, || text(record))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Formats a record on one line with fixed columns.
fn text(record: &Value) -> String {
    let [_, time, kind, call, tool, who, how] = list::row(record);
    let line = format!("{time:<24}  {kind:<7}  {call:<36}  {tool:<20}  {who:<10}  {how}");
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests;
