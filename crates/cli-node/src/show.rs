//! Implements `toolkeep node show` and `toolkeep node revoke`.

use clap::Args;
use serde_json::{Value, json};

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// Show one node: its state, where it is called, and the certificates that were issued to it.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node show node-abc123")]
pub(crate) struct Show {
    /// The node's id.
    #[arg(value_name = "NODE")]
    node_id: String,
}

impl Show {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        let answer = session.client.get(&Path::new("/v1/nodes", &[&self.node_id])).await;
        session.end().await?;
        let node = answer?;
        ui.answer(&node, || text(&node))?;
        Ok(Exit::Done)
    }
}

/// Revoke a node: its certificates and its keys stop to count at once, its connections are cut, and it is
/// not called until it has joined again. Needs the right `nodes:write`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node revoke node-abc123")]
pub(crate) struct Revoke {
    /// The node's id.
    #[arg(value_name = "NODE")]
    node_id: String,
}

impl Revoke {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        let path = Path::new("/v1/nodes", &[&self.node_id, "revoke"]);
        let answer = session.client.post(&path, &json!({})).await;
        session.end().await?;
        let answer: Value = answer?;
        ui.answer(&answer, || {
            let keys = value::list(&answer, "keys").len();
            let node = value::line(&answer, "node_id", 60);
            format!("{node} is revoked, and {keys} of its keys")
        })?;
        ui.note("to let it join again: toolkeep node invite NODE");
        Ok(Exit::Done)
    }
}

/// Summarizes the newest certificate for a table cell.
pub(crate) fn summary(certificates: &[Value]) -> String {
    let Some(newest) = certificates.first() else { return String::new() };
    match value::line(newest, "state", 10).as_str() {
        "current" => format!("until {}", value::line(newest, "expires", 24)),
        state => state.to_owned(),
    }
}

fn text(node: &Value) -> String {
    let facts = ["tools", "state", "seen", "endpoint", "problem", "replaced"];
    let facts = facts.map(|key| (key, value::line(node, key, 200)));
    let own = node.get("own_connection").and_then(Value::as_bool) == Some(true);
    let own = own.then(|| ("called", "over its own connection".to_owned()));
    let facts = facts.into_iter().chain(own).filter(|(_, fact)| !fact.is_empty());
    let facts: Vec<_> = facts.map(|(key, fact)| format!("  {key:<12}{fact}")).collect();
    let row = |one: &Value| {
        let line = |key, width| value::line(one, key, width);
        [
            line("serial", 40),
            line("state", 10),
            line("issued", 24),
            line("expires", 24),
            line("public_key", 64),
        ]
    };
    let rows: Vec<_> = value::list(node, "certificates").iter().map(row).collect();
    let certificates = if rows.is_empty() {
        "no certificates".to_owned()
    } else {
        table(["SERIAL", "STATE", "ISSUED", "EXPIRES", "PUBLIC KEY"], &rows)
    };
    format!("{}\n\n{}\n\n{certificates}", value::line(node, "node_id", 60), facts.join("\n"))
}
