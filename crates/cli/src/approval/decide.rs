//! Implements `toolkeep approval approve`, `deny` and `edit`.

use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::hunks;
use cli_core::client::{Client, Path};
use cli_core::context::Context;
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use cli_core::value;

/// Let a held call run, once, as it stands.
///
/// It is decided anew before it runs: what has changed since is honoured. Nobody approves an own call: have
/// another person approve it, or make it with an agent's key (`toolkeep tool call --agent`).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval approve 01980000-0000-7000-8000-000000000000")]
pub(crate) struct Approve {
    /// Its id.
    #[arg(value_name = "ID")]
    id: String,
    /// Only where the arguments still have this hash, as `toolkeep approval show` told it.
    #[arg(long, value_name = "HASH")]
    sha256: Option<String>,
}

/// Refuse a held call, which then never runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval deny 01980000-0000-7000-8000-000000000000 --reason 'not on a Friday'")]
pub(crate) struct Deny {
    /// Its id.
    #[arg(value_name = "ID")]
    id: String,
    /// Why; the caller is told.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Change the arguments of a held call, which then waits on with these.
///
/// They are checked against the tool's schema, and whoever approved what was there before has approved
/// nothing. Of an edit, a call with the texts `original` and `modified`, `--hunks` keeps those changes alone
/// that are named, as `toolkeep approval show` numbers them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval edit 01980000-0000-7000-8000-000000000000 --arguments '{\"path\": \"tmp\"}'
  toolkeep approval edit 01980000-0000-7000-8000-000000000000 --arguments '{}' --approve
  toolkeep approval edit 01980000-0000-7000-8000-000000000000 --hunks 1,3 --approve")]
pub(crate) struct Edit {
    /// Its id.
    #[arg(value_name = "ID")]
    id: String,
    /// All its arguments, as they shall be, as one JSON object.
    #[arg(
        long = "arguments",
        alias = "args",
        value_name = "JSON",
        required_unless_present = "hunks"
    )]
    args: Option<String>,
    /// Of an edit the changes that are accepted; the others are rejected.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', conflicts_with = "args")]
    hunks: Vec<usize>,
    /// Let it run with these at once.
    #[arg(long)]
    approve: bool,
}

impl Approve {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let body = match &self.sha256 {
            Some(hash) => json!({ "arguments_sha256": hash }),
            None => json!({}),
        };
        decide(context, ui, (&self.id, "approve"), &body).await
    }
}

impl Deny {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let body = match &self.reason {
            Some(reason) => json!({ "reason": reason }),
            None => json!({}),
        };
        decide(context, ui, (&self.id, "deny"), &body).await
    }
}

#[derive(serde::Serialize)]
struct Change<'a> {
    arguments: &'a RawValue,
    approve: bool,
}

impl Edit {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let arguments = match &self.args {
            Some(args) => args.clone(),
            None => self.accepted(context, ui).await?,
        };
        // Kept as raw text, so that no digit of a number is lost.
        let arguments: Box<RawValue> = serde_json::from_str(&arguments).map_err(|error| {
            Failure::new(Exit::Usage, format!("the arguments are no JSON: {error}"))
        })?;
        let body = Change { arguments: &arguments, approve: self.approve };
        decide(context, ui, (&self.id, "edit"), &body).await
    }

    /// The arguments of the pending call with only the accepted changes.
    async fn accepted(&self, context: &Context<'_>, ui: &mut Ui) -> Result<String, Failure> {
        let session = context.connect().await?;
        session.sources(SourceNeed::Approval(&self.id), ui).await;
        let answer = session.client.get(&Path::new("/v1/approvals", &[&self.id])).await;
        session.end().await?;
        let answer: Value = answer?;
        let arguments = answer.get("arguments").unwrap_or(&Value::Null);
        hunks::taken(arguments, &self.hunks).map(|arguments| arguments.to_string())
    }
}

async fn decide(
    context: &Context<'_>,
    ui: &mut Ui,
    (id, how): (&str, &str),
    body: &impl serde::Serialize,
) -> Result<Exit, Failure> {
    let session = context.connect().await?;
    session.sources(SourceNeed::Approval(id), ui).await;
    let answer = post(&session.client, (id, how), body).await;
    // A server in this process finishes approved calls before it stops.
    session.end().await?;
    let answer = answer?;
    ui.answer(&answer, || text(&answer, how))?;
    Ok(Exit::Done)
}

async fn post(
    client: &Client,
    (id, how): (&str, &str),
    body: &impl serde::Serialize,
) -> Result<Value, Failure> {
    client.post(&Path::new("/v1/approvals", &[id, how]), body).await
}

fn text(answer: &Value, how: &str) -> String {
    let (id, tool) = (value::line(answer, "id", 36), value::line(answer, "tool", 60));
    let state = value::line(answer, "state", 12);
    match (how, state.as_str()) {
        ("edit", "pending") => {
            let hash = value::line(answer, "arguments_sha256", 80);
            format!("changed: {tool} waits on with {hash}\n  toolkeep approval approve {id}")
        }
        (_, "void") => {
            let why = answer.get("ended").map(|ended| value::line(ended, "message", 200));
            format!("void: {tool} does not run: {}", why.unwrap_or_default())
        }
        _ => format!("{state}: {tool}\n  toolkeep record show {id}"),
    }
}
