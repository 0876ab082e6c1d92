//! Implements `toolkeep node`: commands for the nodes that run tools, and for serving tools from
//! this machine.

mod authority;
mod called;
mod forward;
mod forwarder;
mod join;
mod serve;
mod show;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, table};
use cli_core::value;

/// List, show, invite and revoke the machines that run tools; join as one, and serve tools as one.
#[derive(Debug, Args)]
pub struct Node {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Show(show::Show),
    Invite(Invite),
    Revoke(show::Revoke),
    Join(join::Join),
    Authority(authority::Authority),
    Serve(serve::Serve),
    Forward(forward::Forward),
}

impl Node {
    /// Runs the selected subcommand.
    ///
    /// # Errors
    /// Returns the error message with its exit status.
    pub async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self.command {
            Command::List(command) => command.run(context, ui).await,
            Command::Show(command) => command.run(context, ui).await,
            Command::Revoke(command) => command.run(context, ui).await,
            Command::Invite(command) => command.run(context, ui).await,
            Command::Join(command) => command.run(context, ui).await,
            Command::Authority(command) => command.run(context, ui),
            Command::Serve(command) => command.run(context, ui).await,
            Command::Forward(command) => command.run(context, ui).await,
        }
    }

    /// Whether the command runs until it is stopped.
    pub fn stays(&self) -> bool {
        matches!(self.command, Command::Serve(_) | Command::Forward(_))
    }
}

/// List the nodes: how many tools each has, its state, its certificate's end, where it is called.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node list")]
pub(crate) struct List {}

impl List {
    async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        let answer = session.client.get(&Path::new("/v1/nodes", &[])).await;
        session.end().await?;
        let answer = answer?;
        ui.answer(&answer, || text(value::list(&answer, "nodes")))?;
        Ok(Exit::Done)
    }
}

fn text(nodes: &[Value]) -> String {
    if nodes.is_empty() {
        return "no nodes".to_owned();
    }
    let row = |node: &Value| {
        let line = |key, width| value::line(node, key, width);
        let place = line("endpoint", 60);
        let own = node.get("own_connection").and_then(Value::as_bool) == Some(true);
        let place = match place {
            place if !place.is_empty() => place,
            _ if own => "over its own connection".to_owned(),
            _ => line("problem", 120),
        };
        let certificate = show::summary(value::list(node, "certificates"));
        let (state, seen) = (line("state", 10), line("seen", 24));
        [line("node_id", 60), line("tools", 8), state, seen, certificate, place]
    };
    let rows: Vec<_> = nodes.iter().map(row).collect();
    table(["NODE", "TOOLS", "STATE", "SEEN", "CERTIFICATE", "WHERE"], &rows)
}

/// Let a node join: prints a key that is good for that, once, within ten minutes. Needs the right
/// `nodes:write`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node invite node-abc123")]
pub(crate) struct Invite {
    /// The node's id.
    #[arg(value_name = "NODE")]
    node_id: String,
}

impl Invite {
    async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let session = context.connect().await?;
        let path = Path::new("/v1/nodes", &[&self.node_id, "invite"]);
        let answer = session.client.post(&path, &json!({})).await;
        session.end().await?;
        let answer: Value = answer?;
        ui.answer(&answer, || value::text(&answer, "key"))?;
        ui.note(
            "it is shown this once and good for ten minutes; on the node, with it in TOOLKEEP_KEY \
             and this server's address in TOOLKEEP_URL: toolkeep node join NODE",
        );
        Ok(Exit::Done)
    }
}
