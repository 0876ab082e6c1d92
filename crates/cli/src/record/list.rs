//! Implements `toolkeep record list`, which lists records.

use clap::Args;
use serde_json::Value;

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// List what is on record, newest first.
///
/// A page can have fewer records than `--limit`, or none, and not be the last one: it ends after a bounded amount of work. Go on
/// with the cursor that it prints.
///
/// Needs a key with the right `records:read`, as owner.key has it. With `--call` it shows one call,
/// which whoever made it may see.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record list
  toolkeep record list --tool calculator --limit 10
  toolkeep record list --status failed --since 24h
  toolkeep record list --caller ann --since 2026-11-23 --until 2026-11-24
  toolkeep record list --call 01980000-0000-7000-8000-000000000000")]
pub(crate) struct List {
    /// Only calls of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls of this subject, and events that it caused.
    #[arg(long, value_name = "SUBJECT")]
    caller: Option<String>,
    /// Only records of this kind: intent, wait, outcome, refused or event.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only records that give this status: succeeded, failed, cancelled, abandoned, unknown, refused or waiting.
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only from this time on: RFC 3339, a day, or how long ago, such as 15m, 2h or 7d.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only before this time, written in the same way.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// How many records.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// Go on from here: the cursor that the list before ended with.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// All records of this call.
    #[arg(long, value_name = "ID", conflicts_with_all = ["tool", "caller", "kind", "status", "since", "until", "limit", "cursor"])]
    call: Option<String>,
}

impl List {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let path = match &self.call {
            Some(call) => Path::new("/v1/calls", &[call]),
            None => Path::new("/v1/records", &[])
                .with("limit", Some(self.limit))
                .with("cursor", self.cursor.as_deref())
                .with("tool", self.tool.as_deref())
                .with("caller", self.caller.as_deref())
                .with("kind", self.kind.as_deref())
                .with("status", self.status.as_deref())
                .with("since", self.since.as_deref())
                .with("until", self.until.as_deref()),
        };
        let session = context.connect().await?;
        let answer = session.client.get(&path).await;
        session.end().await?;
        let answer = answer?;
        ui.answer(&answer, || text(&answer))?;
        Ok(Exit::Done)
    }
}

fn text(answer: &Value) -> String {
    let records = value::list(answer, "records");
    let below = |lead: &str, key: &str| {
        let word = value::line(answer, key, 40);
        if word.is_empty() { word } else { format!("\n\n{lead} {word}") }
    };
    let more = below("more: --cursor", "next_cursor");
    if records.is_empty() && more.is_empty() {
        return "nothing on record".to_owned();
    }
    if records.is_empty() {
        return format!("no match in the part of the record that was searched{more}");
    }
    let rows: Vec<_> = records.iter().map(row).collect();
    let table = table(["SEQ", "TIME", "KIND", "CALL", "TOOL", "WHO", "HOW"], &rows);
    format!("{table}{}{more}", below("the call is", "status"))
}

/// Formats one record as a row: an intent has a tool and a caller, an outcome its status.
pub(super) fn row(record: &Value) -> [String; 7] {
    let body = record.get("body").unwrap_or(&Value::Null);
    let tool = body.get("tool").map_or_else(String::new, |tool| match tool {
        Value::Object(_) => value::line(tool, "name", 60),
        _ => value::line(body, "tool", 60),
    });
    let who = body.get("caller").map(|caller| value::line(caller, "subject", 24));
    let how = ["step", "status", "code", "reason"].map(|key| value::line(body, key, 40));
    let how: Vec<_> = how.into_iter().filter(|word| !word.is_empty()).collect();
    [
        value::line(record, "seq", 20),
        value::line(body, "at", 32),
        value::line(record, "kind", 12),
        value::line(record, "call", 36),
        tool,
        who.unwrap_or_default(),
        how.join(" "),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

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
        assert_eq!(text(&answer), expected);
        assert_eq!(text(&json!({ "records": [] })), "nothing on record");
        let bounded = json!({ "records": [], "next_cursor": "7" });
        let expected = "no match in the part of the record that was searched\n\nmore: --cursor 7";
        assert_eq!(text(&bounded), expected);
    }
}
