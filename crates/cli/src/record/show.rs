//! Implements `toolkeep record show`, which shows one call with its records.

use clap::Args;
use serde_json::Value;
use tool::Code;

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, facts};
use cli_core::value;

/// Show one call: what came of it, and every record of it.
///
/// Whoever made the call may see it, and a key with the right `records:read`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record show 01980000-0000-7000-8000-000000000000
  toolkeep record show 01980000-0000-7000-8000-000000000000 -o yaml")]
pub(crate) struct Show {
    /// The call's id, as `toolkeep record list` and every error of a call tell it.
    #[arg(value_name = "CALL_ID")]
    call: String,
}

impl Show {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        let answer = session.client.get(&Path::new("/v1/calls", &[&self.call])).await;
        session.end().await?;
        let answer = answer.map_err(|failure| {
            if failure.is_bare(Code::NotFound) {
                failure.fix("`toolkeep record list` shows the ids of calls")
            } else {
                failure
            }
        })?;
        ui.answer(&answer, || text(&answer))?;
        Ok(Exit::Done)
    }
}

fn text(answer: &Value) -> String {
    let facts_of_call =
        ["call_id", "status", "code", "tool", "source", "started", "elapsed_ms", "result"].map(
            |key| {
                let fact = value::line(answer, key, 200);
                (key, fact)
            },
        );
    let told = facts_of_call.iter().filter(|(_, fact)| !fact.is_empty());
    let told: Vec<_> = told.map(|(key, fact)| format!("{key:<11} {fact}")).collect();
    let records = value::list(answer, "records").iter().map(record);
    std::iter::once(told.join("\n")).chain(records).collect::<Vec<_>>().join("\n\n")
}

/// Formats one record: its number, kind and time, followed by its fields.
fn record(record: &Value) -> String {
    let mut body = record.get("body").cloned().unwrap_or(Value::Null);
    let at = value::line(&body, "at", 32);
    if let Some(body) = body.as_object_mut() {
        body.shift_remove("at");
    }
    let at = if at.is_empty() { at } else { format!("  {at}") };
    let (seq, kind) = (value::line(record, "seq", 20), value::line(record, "kind", 12));
    let facts: Vec<_> = facts(&body).lines().map(|line| format!("\n  {line}")).collect();
    format!("{seq}  {kind}{at}{}", facts.concat())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

    #[test]
    fn a_call_is_told_from_its_intent_to_its_outcome() {
        let answer = json!({ "call_id": "c1", "status": "succeeded", "tool": "ec\u{1b}ho",
            "source": "builtin", "started": "1970-01-01T00:00:00.000Z", "elapsed_ms": 3, "records": [
            { "seq": 1, "kind": "intent", "call": "c1", "body": { "at": "1970-01-01T00:00:00.000Z", "effects": false,
              "caller": { "org": "default", "subject": "ann" } } },
            { "seq": 2, "kind": "outcome", "call": "c1", "body": { "at": "1970-01-01T00:00:00.003Z", "status": "succeeded" } },
        ] });
        let expected = "\
call_id     c1
status      succeeded
tool        ec\u{fffd}ho
source      builtin
started     1970-01-01T00:00:00.000Z
elapsed_ms  3

1  intent  1970-01-01T00:00:00.000Z
  effects         false
  caller.org      default
  caller.subject  ann

2  outcome  1970-01-01T00:00:00.003Z
  status  succeeded";
        assert_eq!(text(&answer), expected);
    }
}
