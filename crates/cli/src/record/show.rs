//! Implements `toolkeep record show`, which shows one call with its records.

use clap::Args;
use serde_json::Value;
use tool::ErrorCode;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_fields};
use cli_core::rest_client::RequestPath;

/// Show one call with its result and all its records.
///
/// Requires the right `records:read`, or the key that made the call.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record show 01980000-0000-7000-8000-000000000000
  toolkeep record show 01980000-0000-7000-8000-000000000000 -o yaml")]
pub(crate) struct RecordShowArgs {
    /// ID of the call, as `toolkeep record list` and the errors of calls print it.
    #[arg(value_name = "CALL_ID")]
    call: String,
}

impl RecordShowArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        let answer =
            session.client.get_json(&RequestPath::from_segments("/v1/calls", &[&self.call])).await;
        session.close().await?;
        let answer = answer.map_err(|failure| {
            if failure.is_without_help(ErrorCode::NotFound) {
                failure.with_help("run `toolkeep record list` to see the IDs of calls")
            } else {
                failure
            }
        })?;
        ui.print_result(&answer, || format_call(&answer))?;
        Ok(ExitStatus::Success)
    }
}

fn format_call(answer: &Value) -> String {
    let facts_of_call =
        ["call_id", "status", "code", "tool", "source", "started", "elapsed_ms", "result"].map(
            |key| {
                let fact = json_fields::field_line(answer, key, 200);
                (key, fact)
            },
        );
    let lines = facts_of_call.iter().filter(|(_, fact)| !fact.is_empty());
    let told: Vec<_> = lines.map(|(key, fact)| format!("{key:<11} {fact}")).collect();
    let records = json_fields::field_items(answer, "records").iter().map(format_record);
    std::iter::once(told.join("\n")).chain(records).collect::<Vec<_>>().join("\n\n")
}

/// Formats one record: its number, kind and time, followed by its fields.
fn format_record(record: &Value) -> String {
    let mut body = record.get("body").cloned().unwrap_or(Value::Null);
    let at = json_fields::field_line(&body, "at", 32);
    if let Some(body) = body.as_object_mut() {
        body.shift_remove("at");
    }
    let at = if at.is_empty() { at } else { format!("  {at}") };
    let (seq, kind) =
        (json_fields::field_line(record, "seq", 20), json_fields::field_line(record, "kind", 12));
    let facts: Vec<_> = format_fields(&body).lines().map(|line| format!("\n  {line}")).collect();
    format!("{seq}  {kind}{at}{}", facts.concat())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::format_call;

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
        assert_eq!(format_call(&answer), expected);
    }
}
