//! Implements `toolkeep policy explain`, which explains the decision for a call.

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;
use cli_core::server_transport::SourceNeed;

/// Explain how the policy decides on a call: the decision, its layer and rule, and the rule's
/// location.
///
/// Explaining calls of another key or of hidden tools requires the right `policy:explain`, as
/// owner.key has it. Without it, a hidden tool is reported as unknown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep policy explain --tool calculator
  toolkeep policy explain --as KEY --tool write_file --arguments '{\"path\": \"/tmp/a\"}'")]
pub(crate) struct PolicyExplainArgs {
    /// ID of the calling key, as `toolkeep key list` prints it [default: your own key].
    #[arg(long = "as", value_name = "KEY")]
    as_key: Option<String>,
    /// Name or alias of the tool.
    #[arg(long, value_name = "NAME")]
    tool: String,
    /// Arguments of the call, as one JSON object.
    #[arg(long = "arguments", alias = "args", value_name = "JSON")]
    args: Option<String>,
    /// Explain the call as one of a program.
    #[arg(long)]
    chain: bool,
    /// Exclude tools with side effects, as the caller would.
    #[arg(long)]
    read_only: bool,
    /// Exclude tools that reach the network, as the caller would.
    #[arg(long)]
    no_web: bool,
    /// Task type of the call.
    #[arg(long, value_name = "WORD")]
    task_type: Option<String>,
}

#[derive(Serialize)]
struct ExplainRequest<'a> {
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Box<RawValue>>,
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    chain: bool,
    read_only: bool,
    no_web: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_type: Option<&'a str>,
}

impl PolicyExplainArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let arguments = self.args.as_deref().map(serde_json::from_str::<Box<RawValue>>).transpose();
        let arguments = arguments.map_err(|error| {
            CommandError::new(
                ExitStatus::UsageError,
                format!("the arguments are not valid JSON: {error}"),
            )
        })?;
        let body = ExplainRequest {
            tool: &self.tool,
            arguments,
            key: self.as_key.as_deref(),
            chain: self.chain,
            read_only: self.read_only,
            no_web: self.no_web,
            task_type: self.task_type.as_deref(),
        };
        let session = context.connect().await?;
        session.wait_for_sources(SourceNeed::Tool(&self.tool), ui).await;
        let answer = session
            .client
            .post_json::<Value>(&RequestPath::from_segments("/v1/explain", &[]), &body)
            .await;
        session.close().await?;
        let answer = answer?;
        ui.print_result(&answer, || format_explanation(&answer))?;
        Ok(ExitStatus::Success)
    }
}

fn format_explanation(answer: &Value) -> String {
    let (decision, why) = (
        json_fields::field_line(answer, "decision", 10),
        json_fields::field_line(answer, "text", 200),
    );
    let mut lines = vec![format!("{decision}: {why}")];
    for key in ["tool", "key", "reason", "layer", "rule", "fault"] {
        let fact = json_fields::field_line(answer, key, 200);
        if !fact.is_empty() {
            lines.push(format!("  {key:<8}{fact}"));
        }
    }
    let seen = answer.get("taint").and_then(Value::as_array).into_iter().flatten();
    let seen: Vec<_> =
        seen.filter_map(Value::as_str).map(|it| it.escape_debug().to_string()).collect();
    if !seen.is_empty() {
        lines.push(format!("  {:<8}{}", "taint", seen.join(", ")));
    }
    if let Some(place) = answer.get("place") {
        let (line, column) = (
            json_fields::field_line(place, "line", 10),
            json_fields::field_line(place, "column", 10),
        );
        lines.push(format!("  {:<8}line {line}, column {column} of the configuration", "place"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::format_explanation;

    #[test]
    fn an_explanation_is_told_with_its_place() {
        let answer = json!({
            "tool": "a", "key": "k", "decision": "hidden", "reason": "deny_rule",
            "text": "a deny rule names the tool", "layer": "global", "rule": "group:web",
            "place": { "line": 3, "column": 9 }, "taint": ["untrusted", "private"],
        });
        let expected = "\
hidden: a deny rule names the tool
  tool    a
  key     k
  reason  deny_rule
  layer   global
  rule    group:web
  taint   untrusted, private
  place   line 3, column 9 of the configuration";
        assert_eq!(format_explanation(&answer), expected);
    }
}
