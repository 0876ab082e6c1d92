//! Implements `toolkeep policy explain`, which explains the decision for a call.

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::value;

/// Tell what would become of a call, and why: the decision, the layer and rule, and where it stands.
///
/// For another key, and for tools that are hidden, it needs the right `policy:explain`, as owner.key has
/// it; without it a hidden tool is explained as one that is not there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep policy explain --tool calculator
  toolkeep policy explain --as KEY --tool write_file --arguments '{\"path\": \"/tmp/a\"}'")]
pub(crate) struct Explain {
    /// Id of the key that would call; `toolkeep key list` shows them [default: your own].
    #[arg(long = "as", value_name = "KEY")]
    as_key: Option<String>,
    /// The tool's name or alias.
    #[arg(long, value_name = "NAME")]
    tool: String,
    /// Its arguments as one JSON object.
    #[arg(long = "arguments", alias = "args", value_name = "JSON")]
    args: Option<String>,
    /// As a program would call, in a chain.
    #[arg(long)]
    chain: bool,
    /// With only tools without effects left.
    #[arg(long)]
    read_only: bool,
    /// With no tool left that reaches the network.
    #[arg(long)]
    no_web: bool,
    /// The kind of task.
    #[arg(long, value_name = "WORD")]
    task_type: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
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

impl Explain {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let arguments = self.args.as_deref().map(serde_json::from_str::<Box<RawValue>>).transpose();
        let arguments = arguments.map_err(|error| {
            Failure::new(Exit::Usage, format!("the arguments are no JSON: {error}"))
        })?;
        let body = Body {
            tool: &self.tool,
            arguments,
            key: self.as_key.as_deref(),
            chain: self.chain,
            read_only: self.read_only,
            no_web: self.no_web,
            task_type: self.task_type.as_deref(),
        };
        let session = context.connect().await?;
        session.sources(SourceNeed::Tool(&self.tool), ui).await;
        let answer = session.client.post::<Value>(&Path::new("/v1/explain", &[]), &body).await;
        session.end().await?;
        let answer = answer?;
        ui.answer(&answer, || text(&answer))?;
        Ok(Exit::Done)
    }
}

fn text(answer: &Value) -> String {
    let (decision, why) = (value::line(answer, "decision", 10), value::line(answer, "text", 200));
    let mut lines = vec![format!("{decision}: {why}")];
    for key in ["tool", "key", "reason", "layer", "rule", "fault"] {
        let told = value::line(answer, key, 200);
        if !told.is_empty() {
            lines.push(format!("  {key:<8}{told}"));
        }
    }
    let seen = answer.get("taint").and_then(Value::as_array).into_iter().flatten();
    let seen: Vec<_> =
        seen.filter_map(Value::as_str).map(|it| it.escape_debug().to_string()).collect();
    if !seen.is_empty() {
        lines.push(format!("  {:<8}{}", "taint", seen.join(", ")));
    }
    if let Some(place) = answer.get("place") {
        let (line, column) = (value::line(place, "line", 10), value::line(place, "column", 10));
        lines.push(format!("  {:<8}line {line}, column {column} of the configuration", "place"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

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
        assert_eq!(text(&answer), expected);
    }
}
