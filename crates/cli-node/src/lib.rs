//! Implements `toolkeep node`: commands for the nodes that run tools, and for serving tools from
//! this machine.

mod authority;
mod call_forwarder;
mod drain;
mod forward;
mod join;
mod node_args;
mod serve;
mod show;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};
use cli_core::rest_client::RequestPath;

/// List, show, invite, drain and revoke nodes, which run tools on other machines; join and serve as a
/// node.
#[derive(Debug, Args)]
pub struct NodeCommand {
    #[command(subcommand)]
    command: NodeSubcommand,
}

#[derive(Debug, Subcommand)]
enum NodeSubcommand {
    List(NodeListArgs),
    Show(show::NodeShowArgs),
    Invite(NodeInviteArgs),
    Drain(drain::NodeDrainArgs),
    Resume(drain::NodeResumeArgs),
    Revoke(show::NodeRevokeArgs),
    Join(join::NodeJoinArgs),
    Authority(authority::NodeAuthorityArgs),
    Serve(serve::NodeServeArgs),
    Forward(forward::NodeForwardArgs),
}

impl NodeCommand {
    /// Runs the selected subcommand.
    ///
    /// # Errors
    /// Returns the error message with its exit status.
    pub async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self.command {
            NodeSubcommand::List(command) => command.run(context, ui).await,
            NodeSubcommand::Show(command) => command.run(context, ui).await,
            NodeSubcommand::Drain(command) => command.run(context, ui).await,
            NodeSubcommand::Resume(command) => command.run(context, ui).await,
            NodeSubcommand::Revoke(command) => command.run(context, ui).await,
            NodeSubcommand::Invite(command) => command.run(context, ui).await,
            NodeSubcommand::Join(command) => command.run(context, ui).await,
            NodeSubcommand::Authority(command) => command.run(context, ui),
            NodeSubcommand::Serve(command) => command.run(context, ui).await,
            NodeSubcommand::Forward(command) => command.run(context, ui).await,
        }
    }

    /// Whether the command runs until it is stopped.
    pub fn is_long_running(&self) -> bool {
        matches!(self.command, NodeSubcommand::Serve(_) | NodeSubcommand::Forward(_))
    }
}

/// List the nodes with their tools, state, certificate expiry and address.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node list")]
pub(crate) struct NodeListArgs {}

impl NodeListArgs {
    async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        let answer = session.client.get_json(&RequestPath::from_segments("/v1/nodes", &[])).await;
        session.close().await?;
        let answer = answer?;
        ui.print_result(&answer, || format_nodes(json_fields::field_items(&answer, "nodes")))?;
        Ok(ExitStatus::Success)
    }
}

fn format_nodes(nodes: &[Value]) -> String {
    if nodes.is_empty() {
        return "no nodes".to_owned();
    }
    let row = |node: &Value| {
        let line = |key, width| json_fields::field_line(node, key, width);
        let place = line("endpoint", 60);
        let own = node.get("own_connection").and_then(Value::as_bool) == Some(true);
        let place = match place {
            place if !place.is_empty() => place,
            _ if own => "over its own connection".to_owned(),
            _ => line("problem", 120),
        };
        let certificate = show::certificate_summary(json_fields::field_items(node, "certificates"));
        let (state, seen) = (line("state", 10), line("seen", 24));
        [line("node_id", 60), line("tools", 8), state, seen, certificate, place]
    };
    let rows: Vec<_> = nodes.iter().map(row).collect();
    format_table(["NODE", "TOOLS", "STATE", "SEEN", "CERTIFICATE", "WHERE"], &rows)
}

/// Invite a node: create a key that is valid for one join within ten minutes. Requires the right
/// `nodes:write`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node invite node-abc123")]
pub(crate) struct NodeInviteArgs {
    /// ID of the node.
    #[arg(value_name = "NODE")]
    node_id: String,
}

impl NodeInviteArgs {
    async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        let path = RequestPath::from_segments("/v1/nodes", &[&self.node_id, "invite"]);
        let answer = session.client.post_json(&path, &json!({})).await;
        session.close().await?;
        let answer: Value = answer?;
        ui.print_result(&answer, || json_fields::field_text(&answer, "key"))?;
        ui.print_note(
            "the invitation is printed once and expires in ten minutes; on the node, set \
             TOOLKEEP_KEY to it and TOOLKEEP_URL to this server, and run: toolkeep node join NODE",
        );
        Ok(ExitStatus::Success)
    }
}
