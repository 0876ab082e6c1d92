//! Flags that `node serve` and `node forward` share: where the node listens and where it registers.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use proto::tls;
use sdk::{Node, Options};
use serde_json::{Value, json};
use tool::Secret;

use cli_core::context::{Context, plaintext};
use cli_core::data::key_in;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// How the node is called, and where its tools are registered.
#[derive(Debug, Args)]
pub(crate) struct Called {
    /// The node's id.
    #[arg(value_name = "NODE")]
    pub(crate) node_id: String,
    /// The folder that `toolkeep node join` made. Only the server can call the node then.
    #[arg(long, env = "TOOLKEEP_NODE_TLS", value_name = "DIR")]
    tls: Option<PathBuf>,
    /// The address to be called at [default: 127.0.0.1:50051]. Beyond the loopback it wants `--tls`.
    #[arg(long, env = "TOOLKEEP_NODE_ADDRESS", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Connect to the server instead, where it waits for nodes (`serve --node-listen`), so that this
    /// machine needs no open port. Wants `--tls`.
    #[arg(
        long,
        env = "TOOLKEEP_NODE_CONNECT",
        value_name = "HOST:PORT",
        conflicts_with = "listen"
    )]
    connect: Option<String>,
}

impl Called {
    /// The options of the node: its registry and key, from the command line or from its enrollment.
    pub(crate) fn options(&self, context: &Context<'_>) -> Result<Options, Failure> {
        let mut options = Options::default().node_id(&self.node_id);
        if let Some(address) = self.listen {
            options = options.host(address.ip(), false).port(address.port());
        }
        let (url, given) = context.named();
        let own = || self.tls.as_ref().map(|folder| folder.join(tls::REGISTRY_KEY));
        let own = own().and_then(|path| key_in(&context.path(&path)).ok()).map(Secret::new);
        let url = url.ok_or_else(|| {
            let told = "nothing says at which server the tools are registered";
            Failure::new(Exit::Usage, told).fix("name it with `--url` or TOOLKEEP_URL")
        })?;
        options = options.registry(url, given.or(own)).insecure_registry(context.is_insecure());
        if let Some(folder) = &self.tls {
            options = options.tls(context.path(folder));
        }
        if let Some(server) = &self.connect {
            options = options.connect(server);
        }
        Ok(options)
    }

    /// Prints that the node has started, with rejected tools.
    pub(crate) fn told(&self, node: &Node, tools: usize, ui: &mut Ui) -> Result<(), Failure> {
        let address = (node.address().port() != 0).then(|| node.address().to_string());
        let refused = node.refused();
        let names = refused.iter().map(|(name, why)| json!({"tool": name, "why": why}));
        let told = json!({
            "node_id": self.node_id, "address": address, "connects_to": self.connect,
            "tools": tools, "refused": names.collect::<Vec<Value>>(),
        });
        ui.answer(&told, || {
            let place = address.clone().or_else(|| self.connect.clone()).unwrap_or_default();
            let how = if address.is_some() { "is called at" } else { "connects to" };
            let mut text = format!("{} {how} {place} with {tools} tools", self.node_id);
            for (name, why) in &refused {
                let _infallible =
                    write!(text, "\n  {name} was not taken, and is tried again: {why}");
            }
            text
        })
    }
}

/// Converts the error of a node that does not start.
pub(crate) fn unstarted(error: sdk::StartError) -> Failure {
    if let sdk::StartError::PlaintextKey(error) = error {
        return plaintext(error);
    }
    Failure::new(Exit::NoServer, error.to_string())
}
