//! `toolkeep tool show`.

use clap::Args;
use serde_json::Value;

use crate::cli::client::Path;
use crate::cli::context::Context;
use crate::cli::failure::{Exit, Failure};
use crate::cli::near;
use crate::cli::ui::{Ui, clean};
use crate::cli::value;

/// Show one tool: what it does, its arguments, its traits.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool show calculator
  toolkeep tool show calculator -o json")]
pub(in crate::cli) struct Show {
    /// The tool's name or alias.
    #[arg(value_name = "NAME")]
    name: String,
}

impl Show {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        let mut tool = session.client.get(&Path::new("/v1/tools", &[&self.name])).await;
        if let Err(failure) = tool {
            let told = near::named(near::TOOL, &session.client, &self.name, failure).await;
            tool = Err(self.without_model(told));
        }
        session.end().await?;
        let tool = tool?;
        ui.answer(&tool, || text(&tool))?;
        Ok(Exit::Done)
    }
}

impl Show {
    /// Why it is not there, where that is known: it is one of those that need a language model.
    fn without_model(&self, told: Failure) -> Failure {
        if builtins_llm::names().any(|name| name == self.name) {
            let why = "it is not offered, because no language model is installed";
            return told.fix(format!("{why}: {}", builtins_llm::HELP));
        }
        told
    }
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
        value::text(tool, "description").trim(),
        facts.join("\n"),
        clean(&schema),
    )
}
