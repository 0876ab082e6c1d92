//! Flags that `node serve` and `node forward` share: where the node listens and where it registers.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use proto::tls;
use sdk::{Node, NodeOptions, RejectedTool};
use serde_json::{Value, json};
use tool::Secret;

use cli_core::command_context::{CommandContext, plaintext_key_error};
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::read_key_file;
use cli_core::printer::Printer;

/// Address and registration of a node.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// ID of the node.
    #[arg(value_name = "NODE")]
    pub(crate) node_id: String,
    /// Directory that `toolkeep node join` created. Only the server can call the node then.
    #[arg(long, env = "TOOLKEEP_NODE_TLS", value_name = "DIR")]
    tls: Option<PathBuf>,
    /// Address at which the server calls this node [default: 127.0.0.1:50051]. Addresses other than
    /// loopback require `--tls`.
    #[arg(long, env = "TOOLKEEP_NODE_ADDRESS", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Connect to this address of the server (`serve --node-listen`), so that this machine needs no
    /// open port. Requires `--tls`.
    #[arg(
        long,
        env = "TOOLKEEP_NODE_CONNECT",
        value_name = "HOST:PORT",
        conflicts_with = "listen"
    )]
    connect: Option<String>,
}

impl NodeArgs {
    /// The options of the node: its registry and key, from the command line or from its enrollment.
    pub(crate) fn node_options(
        &self,
        context: &CommandContext<'_>,
    ) -> Result<NodeOptions, CommandError> {
        let mut options = NodeOptions::default().node_id(&self.node_id);
        if let Some(address) = self.listen {
            options = options.host(address.ip(), false).port(address.port());
        }
        let (url, given) = context.server_and_key();
        let own = || self.tls.as_ref().map(|folder| folder.join(tls::REGISTRY_KEY_FILE));
        let own = own()
            .and_then(|path| read_key_file(&context.absolute_path(&path)).ok())
            .map(Secret::new);
        let url = url.ok_or_else(|| {
            let message = "the address of the server is missing";
            CommandError::new(ExitStatus::UsageError, message)
                .with_help("set it with `--url` or TOOLKEEP_URL")
        })?;
        options = options.registry(url, given.or(own)).insecure_registry(context.is_insecure());
        if let Some(folder) = &self.tls {
            options = options.tls(context.absolute_path(folder));
        }
        if let Some(server) = &self.connect {
            options = options.connect(server);
        }
        Ok(options)
    }

    /// Prints that the node has started, with rejected tools.
    pub(crate) fn print_started(
        &self,
        node: &Node,
        tools: usize,
        ui: &mut Printer,
    ) -> Result<(), CommandError> {
        let address = (node.address().port() != 0).then(|| node.address().to_string());
        let refused = node.rejected_tools();
        let names = refused.iter().map(|it| json!({"tool": it.name, "why": it.reason}));
        let told = json!({
            "node_id": self.node_id, "address": address, "connects_to": self.connect,
            "tools": tools, "refused": names.collect::<Vec<Value>>(),
        });
        ui.print_result(&told, || {
            let place = address.clone().or_else(|| self.connect.clone()).unwrap_or_default();
            let how = if address.is_some() { "listens at" } else { "connects to" };
            let mut text = format!("{} {how} {place} with {tools} tools", self.node_id);
            for RejectedTool { name, reason: why } in &refused {
                let _infallible = write!(text, "\n  {name} was rejected and is retried: {why}");
            }
            text
        })
    }
}

/// Converts the error of a node that does not start.
pub(crate) fn start_error(error: sdk::StartError) -> CommandError {
    if let sdk::StartError::PlaintextKey(error) = error {
        return plaintext_key_error(error);
    }
    CommandError::new(ExitStatus::ServerUnavailable, error.to_string())
}

/// Matches a tool name against a pattern, in which a final `*` matches anything.
pub(crate) fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => pattern == name,
    }
}
