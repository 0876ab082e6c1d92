//! Implements `toolkeep node show` and `toolkeep node revoke`.

use clap::Args;
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};
use cli_core::rest_client::RequestPath;

/// Show one node with its state, address and issued certificates.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node show node-abc123")]
pub(crate) struct NodeShowArgs {
    /// ID of the node.
    #[arg(value_name = "NODE")]
    node_id: String,
}

impl NodeShowArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        let answer = session
            .client
            .get_json(&RequestPath::from_segments("/v1/nodes", &[&self.node_id]))
            .await;
        session.close().await?;
        let node = answer?;
        ui.print_result(&node, || format_node(&node))?;
        Ok(ExitStatus::Success)
    }
}

/// Revoke a node: invalidate its certificates and keys and close its connections. It must join
/// again to be called. Requires the right `nodes:write`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node revoke node-abc123")]
pub(crate) struct NodeRevokeArgs {
    /// ID of the node.
    #[arg(value_name = "NODE")]
    node_id: String,
}

impl NodeRevokeArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        let path = RequestPath::from_segments("/v1/nodes", &[&self.node_id, "revoke"]);
        let answer = session.client.post_json(&path, &json!({})).await;
        session.close().await?;
        let answer: Value = answer?;
        ui.print_result(&answer, || {
            let keys = json_fields::field_items(&answer, "keys").len();
            let node = json_fields::field_line(&answer, "node_id", 60);
            format!("revoked {node} and {keys} of its keys")
        })?;
        ui.print_note("to let it join again: toolkeep node invite NODE");
        Ok(ExitStatus::Success)
    }
}

/// Summarizes the newest certificate for a table cell.
pub(crate) fn certificate_summary(certificates: &[Value]) -> String {
    let Some(newest) = certificates.first() else { return String::new() };
    match json_fields::field_line(newest, "state", 10).as_str() {
        "current" => format!("until {}", json_fields::field_line(newest, "expires", 24)),
        state => state.to_owned(),
    }
}

fn format_node(node: &Value) -> String {
    let facts = ["tools", "state", "seen", "endpoint", "problem", "replaced"];
    let facts = facts.map(|key| (key, json_fields::field_line(node, key, 200)));
    let own = node.get("own_connection").and_then(Value::as_bool) == Some(true);
    let own = own.then(|| ("called", "over its own connection".to_owned()));
    let drained = node.get("drained").and_then(Value::as_bool) == Some(true);
    let drained = drained.then(|| ("drained", "until `toolkeep node resume`".to_owned()));
    let facts = facts.into_iter().chain(own).chain(drained).filter(|(_, fact)| !fact.is_empty());
    let facts: Vec<_> = facts.map(|(key, fact)| format!("  {key:<12}{fact}")).collect();
    let row = |one: &Value| {
        let line = |key, width| json_fields::field_line(one, key, width);
        [
            line("serial", 40),
            line("state", 10),
            line("issued", 24),
            line("expires", 24),
            line("public_key", 64),
        ]
    };
    let rows: Vec<_> = json_fields::field_items(node, "certificates").iter().map(row).collect();
    let certificates = if rows.is_empty() {
        "no certificates".to_owned()
    } else {
        format_table(["SERIAL", "STATE", "ISSUED", "EXPIRES", "PUBLIC KEY"], &rows)
    };
    format!(
        "{}\n\n{}\n\n{certificates}",
        json_fields::field_line(node, "node_id", 60),
        facts.join("\n")
    )
}
