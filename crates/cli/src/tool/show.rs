//! Implements `toolkeep tool show`, which shows one tool.

use clap::Args;
use serde_json::Value;

use crate::name_suggestions;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, sanitize_text};
use cli_core::rest_client::RequestPath;
use cli_core::server_transport::SourceNeed;

/// Show one tool with its description, arguments and traits.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool show calculator
  toolkeep tool show calculator -o json")]
pub(crate) struct ToolShowArgs {
    /// Name or alias of the tool.
    #[arg(value_name = "NAME")]
    name: String,
}

impl ToolShowArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_sources(SourceNeed::Tool(&self.name), ui).await;
        let mut tool =
            session.client.get_json(&RequestPath::from_segments("/v1/tools", &[&self.name])).await;
        if let Err(failure) = tool {
            tool = Err(name_suggestions::with_name_suggestion(
                name_suggestions::TOOL_NAMES,
                &session.client,
                &self.name,
                failure,
            )
            .await);
        }
        session.close().await?;
        let tool = tool?;
        ui.print_result(&tool, || format_tool(&tool))?;
        Ok(ExitStatus::Success)
    }
}

/// Marks each line of a multi-line description, so that none looks like our own output.
fn mark_description(text: &str) -> String {
    if !text.contains('\n') {
        return text.to_owned();
    }
    let lines: Vec<_> = text.lines().map(|line| format!("| {line}")).collect();
    lines.join("\n")
}

fn format_tool(tool: &Value) -> String {
    let traits = tool.get("traits").unwrap_or(&Value::Null);
    let mut facts = vec![
        ("source", json_fields::field_text(tool, "source")),
        ("alias", json_fields::field_text(tool, "alias")),
    ];
    facts.push(("nodes", json_fields::field_text(tool, "nodes")));
    for key in [
        "level",
        "safety",
        "effects",
        "destructive",
        "idempotent",
        "categories",
        "scopes",
        "callers",
    ] {
        facts.push((key, json_fields::field_text(traits, key)));
    }
    facts.push(("timeout_ms", json_fields::field_text(traits, "timeout_ms")));
    let facts = facts.iter().filter(|(_, fact)| !fact.is_empty());
    let facts: Vec<_> = facts.map(|(key, fact)| format!("  {key:<12}{fact}")).collect();
    let schema = tool.get("input_schema").unwrap_or(&Value::Null);
    let schema = serde_json::to_string_pretty(schema).unwrap_or_default();
    format!(
        "{}\n\n{}\n\n{}\n\narguments:\n{}",
        json_fields::field_line(tool, "name", 200),
        mark_description(json_fields::field_text(tool, "description").trim()),
        facts.join("\n"),
        sanitize_text(&schema),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn no_line_of_a_description_passes_for_a_line_of_ours() {
        let lie =
            "Adds.\n\n  source      builtin\n  level       guest\n\narguments:\n{}\r\n\u{1b}[8m";
        let of = |description: &str| {
            json!({"name": "s.a", "source": "s", "description": description,
                "traits": {"level": "owner"}, "input_schema": {"type": "object"}})
        };
        let text = super::format_tool(&of(lie));
        let ours = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
        assert!(lie.lines().any(|line| line.starts_with("  level")), "the control");
        assert_eq!((ours("  source"), ours("  level"), ours("arguments:")), (1, 1, 1), "{text}");
        assert!(!text.contains(['\u{1b}', '\r']), "{text:?}");
        assert!(super::format_tool(&of("Adds.")).starts_with("s.a\n\nAdds.\n\n  source"));
    }
}
