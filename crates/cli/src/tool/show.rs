//! Implements `toolkeep tool show`, which shows one tool.

use clap::Args;
use serde_json::Value;

use crate::near;
use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, clean};
use cli_core::value;

/// Show one tool: what it does, its arguments, its traits.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool show calculator
  toolkeep tool show calculator -o json")]
pub(crate) struct Show {
    /// The tool's name or alias.
    #[arg(value_name = "NAME")]
    name: String,
}

impl Show {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.sources(SourceNeed::Tool(&self.name), ui).await;
        let mut tool = session.client.get(&Path::new("/v1/tools", &[&self.name])).await;
        if let Err(failure) = tool {
            tool = Err(near::named(near::TOOL, &session.client, &self.name, failure).await);
        }
        session.end().await?;
        let tool = tool?;
        ui.answer(&tool, || text(&tool))?;
        Ok(Exit::Done)
    }
}

/// Marks each line of a multi-line description, so that none looks like our own output.
fn description(text: &str) -> String {
    if !text.contains('\n') {
        return text.to_owned();
    }
    let lines: Vec<_> = text.lines().map(|line| format!("| {line}")).collect();
    lines.join("\n")
}

fn text(tool: &Value) -> String {
    let traits = tool.get("traits").unwrap_or(&Value::Null);
    let mut facts =
        vec![("source", value::text(tool, "source")), ("alias", value::text(tool, "alias"))];
    facts.push(("nodes", value::text(tool, "nodes")));
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
        facts.push((key, value::text(traits, key)));
    }
    facts.push(("timeout_ms", value::text(traits, "timeout_ms")));
    let facts = facts.iter().filter(|(_, fact)| !fact.is_empty());
    let facts: Vec<_> = facts.map(|(key, fact)| format!("  {key:<12}{fact}")).collect();
    let schema = tool.get("input_schema").unwrap_or(&Value::Null);
    let schema = serde_json::to_string_pretty(schema).unwrap_or_default();
    format!(
        "{}\n\n{}\n\n{}\n\narguments:\n{}",
        value::line(tool, "name", 200),
        description(value::text(tool, "description").trim()),
        facts.join("\n"),
        clean(&schema),
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
        let text = super::text(&of(lie));
        let ours = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
        assert!(lie.lines().any(|line| line.starts_with("  level")), "the control");
        assert_eq!((ours("  source"), ours("  level"), ours("arguments:")), (1, 1, 1), "{text}");
        assert!(!text.contains(['\u{1b}', '\r']), "{text:?}");
        assert!(super::text(&of("Adds.")).starts_with("s.a\n\nAdds.\n\n  source"));
    }
}
