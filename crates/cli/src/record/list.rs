//! Implements `toolkeep record list`, which lists records.

use clap::Args;
use serde_json::Value;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};
use cli_core::rest_client::RequestPath;

/// List records, newest first.
///
/// A page may have fewer records than `--limit`, or none, without being the last one, because the
/// server limits the work per request. Continue with the printed cursor.
///
/// Requires the right `records:read`, as owner.key has it. With `--call`, it lists the records of
/// one call, which the caller of it may also see.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record list
  toolkeep record list --tool calculator --limit 10
  toolkeep record list --status failed --since 24h
  toolkeep record list --caller ann --since 2026-11-23 --until 2026-11-24
  toolkeep record list --call 01980000-0000-7000-8000-000000000000")]
pub(crate) struct RecordListArgs {
    /// List only calls of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// List only calls of this subject and events that it caused.
    #[arg(long, value_name = "SUBJECT")]
    caller: Option<String>,
    /// List only intents of the calls that this call made.
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// List only records of this kind: intent, wait, outcome, refused or event.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// List only records with this status: succeeded, failed, cancelled, abandoned, unknown,
    /// refused or waiting.
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// List only records since this time: RFC 3339, a date, or an age such as 15m, 2h or 7d.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// List only records before this time, in the same format.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Maximum number of records.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// Cursor that the previous page ended with.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// List all records of this call.
    #[arg(long, value_name = "ID", conflicts_with_all = ["tool", "caller", "parent", "kind", "status", "since", "until", "limit", "cursor"])]
    call: Option<String>,
}

impl RecordListArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let path = match &self.call {
            Some(call) => RequestPath::from_segments("/v1/calls", &[call]),
            None => RequestPath::from_segments("/v1/records", &[])
                .with_query("limit", Some(self.limit))
                .with_query("cursor", self.cursor.as_deref())
                .with_query("tool", self.tool.as_deref())
                .with_query("caller", self.caller.as_deref())
                .with_query("parent", self.parent.as_deref())
                .with_query("kind", self.kind.as_deref())
                .with_query("status", self.status.as_deref())
                .with_query("since", self.since.as_deref())
                .with_query("until", self.until.as_deref()),
        };
        let session = context.connect().await?;
        let answer = session.client.get_json(&path).await;
        session.close().await?;
        let answer = answer?;
        ui.print_result(&answer, || format_records(&answer))?;
        Ok(ExitStatus::Success)
    }
}

fn format_records(answer: &Value) -> String {
    let records = json_fields::field_items(answer, "records");
    let below = |lead: &str, key: &str| {
        let word = json_fields::field_line(answer, key, 40);
        if word.is_empty() { word } else { format!("\n\n{lead} {word}") }
    };
    let more = below("more: --cursor", "next_cursor");
    if records.is_empty() && more.is_empty() {
        return "no records".to_owned();
    }
    if records.is_empty() {
        return format!("no match in the searched part of the record{more}");
    }
    let rows: Vec<_> = records.iter().map(|record| record_row(record).into_cells()).collect();
    let table = format_table(["SEQ", "TIME", "KIND", "CALL", "TOOL", "WHO", "HOW"], &rows);
    format!("{table}{}{more}", below("the call is", "status"))
}

/// The columns of one record.
pub(crate) struct RecordRow {
    seq: String,
    pub(crate) time: String,
    pub(crate) kind: String,
    pub(crate) call: String,
    pub(crate) tool: String,
    /// The caller's subject.
    pub(crate) subject: String,
    /// Step, status, code and reason.
    pub(crate) result: String,
}

impl RecordRow {
    /// The cells in the order of the table.
    fn into_cells(self) -> [String; 7] {
        [self.seq, self.time, self.kind, self.call, self.tool, self.subject, self.result]
    }
}

/// Formats one record as a row: an intent has a tool and a caller, an outcome its status.
pub(crate) fn record_row(record: &Value) -> RecordRow {
    let body = record.get("body").unwrap_or(&Value::Null);
    let tool = body.get("tool").map_or_else(String::new, |tool| match tool {
        Value::Object(_) => json_fields::field_line(tool, "name", 60),
        _ => json_fields::field_line(body, "tool", 60),
    });
    let subject = body.get("caller").map(|caller| json_fields::field_line(caller, "subject", 24));
    let words =
        ["step", "status", "code", "reason"].map(|key| json_fields::field_line(body, key, 40));
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    RecordRow {
        seq: json_fields::field_line(record, "seq", 20),
        time: json_fields::field_line(body, "at", 32),
        kind: json_fields::field_line(record, "kind", 12),
        call: json_fields::field_line(record, "call", 36),
        tool,
        subject: subject.unwrap_or_default(),
        result: words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::format_records;

    #[test]
    fn frames_of_every_kind_are_rows() {
        let answer = json!({ "records": [
            { "seq": 3, "kind": "refused", "call": "c2", "body": { "at": "1970-01-01T00:00:02.000Z", "tool": "rm",
              "caller": { "subject": "ann" }, "code": "denied", "reason": "level" } },
            { "seq": 2, "kind": "outcome", "call": "c1", "body": { "at": "1970-01-01T00:00:01.000Z", "status": "succeeded" } },
            { "seq": 1, "kind": "intent", "call": "c1", "body": { "at": "1970-01-01T00:00:00.000Z",
              "tool": { "org": "default", "source": "s", "name": "echo" },
              "caller": { "subject": "ann" }, "reason": "level" } },
        ], "next_cursor": "1" });
        let expected = "\
SEQ  TIME                      KIND     CALL  TOOL  WHO  HOW
3    1970-01-01T00:00:02.000Z  refused  c2    rm    ann  denied level
2    1970-01-01T00:00:01.000Z  outcome  c1               succeeded
1    1970-01-01T00:00:00.000Z  intent   c1    echo  ann  level

more: --cursor 1";
        assert_eq!(format_records(&answer), expected);
        assert_eq!(format_records(&json!({ "records": [] })), "no records");
        let bounded = json!({ "records": [], "next_cursor": "7" });
        let expected = "no match in the searched part of the record\n\nmore: --cursor 7";
        assert_eq!(format_records(&bounded), expected);
    }
}
