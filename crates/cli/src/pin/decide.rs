//! Implements `toolkeep pin approve` and `toolkeep pin reject`.

use clap::Args;
use serde_json::{Value, json};

use super::{all, named, shown};
use cli_core::client::{Client, Path};
use cli_core::context::Context;
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::value;

/// Agree to a tool's definition: it can be called from here on.
///
/// What is agreed to is one definition, by its hash: if the source changed it since it was looked at,
/// nothing is done. Without `--definition` it is the one that waits now.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep pin approve files.read_file --definition sha256:3f9c…
  toolkeep pin approve --source files --reason 'release 2.1, read its changes'")]
pub(crate) struct Approve {
    /// The tool; `SOURCE/TOOL` where several sources have one of that name.
    #[arg(value_name = "TOOL", required_unless_present = "source")]
    tool: Option<String>,
    #[command(flatten)]
    word: Word,
    /// All that waits of this source now, instead of one tool.
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["tool", "definition"])]
    source: Option<String>,
}

/// Refuse a tool's definition: it is quarantined until another one is agreed to.
///
/// Works on an active definition too, which is withdrawn then.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep pin reject files.read_file --reason 'asks for keys'")]
pub(crate) struct Reject {
    /// The tool; `SOURCE/TOOL` where several sources have one of that name.
    #[arg(value_name = "TOOL")]
    tool: String,
    #[command(flatten)]
    word: Word,
}

#[derive(Debug, Args)]
struct Word {
    /// The definition that was looked at, as `toolkeep pin diff` shows it.
    #[arg(long, value_name = "HASH")]
    definition: Option<String>,
    /// Why; it stands in the record.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Approve {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        let need = self.source.as_deref().map(SourceNeed::Source);
        let need = need.unwrap_or_else(|| super::need(self.tool.as_deref().unwrap_or_default()));
        session.sources(need, ui).await;
        let done = if let Some(source) = &self.source {
            every(&session.client, source, &self.word).await
        } else {
            let tool = self.tool.as_deref().unwrap_or_default();
            one(&session.client, (tool, "approve"), &self.word).await
        };
        session.end().await?;
        told(ui, &done?)
    }
}

impl Reject {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        session.sources(super::need(&self.tool), ui).await;
        let done = one(&session.client, (&self.tool, "reject"), &self.word).await;
        session.end().await?;
        told(ui, &done?)
    }
}

async fn one(
    client: &Client,
    (tool, decision): (&str, &str),
    word: &Word,
) -> Result<Vec<Value>, Failure> {
    let at = named(client, tool).await?;
    let definition = match &word.definition {
        Some(definition) => definition.clone(),
        None => value::text(&shown(client, &at).await?, "definition"),
    };
    let path = Path::new("/v1/pins", &[&at.0, &at.1, decision]);
    let body = json!({"definition": definition, "reason": word.reason});
    Ok(vec![client.post(&path, &body).await?])
}

/// Approves all waiting definitions of a source, each as it was listed here.
async fn every(client: &Client, source: &str, word: &Word) -> Result<Vec<Value>, Failure> {
    let mut done = Vec::new();
    for pin in all(client, Some(source), Some("waiting")).await? {
        let tool = value::text(&pin, "tool");
        let path = Path::new("/v1/pins", &[source, &tool, "approve"]);
        let body = json!({"definition": value::text(&pin, "definition"), "reason": word.reason});
        done.push(client.post(&path, &body).await?);
    }
    Ok(done)
}

fn told(ui: &mut Ui, done: &[Value]) -> Result<Exit, Failure> {
    let line = |pin: &Value| {
        let (source, tool) = (value::line(pin, "source", 128), value::line(pin, "tool", 128));
        format!("{source}/{tool}: {}", value::line(pin, "state", 12))
    };
    let text = || match done {
        [] => "nothing waits".to_owned(),
        done => done.iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    ui.answer(&json!({ "pins": done }), text)?;
    Ok(Exit::Done)
}
