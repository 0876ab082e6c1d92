//! Implements `toolkeep node forward`, which checks calls against a local registry and forwards
//! them to a privileged runtime.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use proto::serve::Tools;
use sdk::Node;

use super::called::{Called, unstarted};
use crate::forwarder::{Forwarder, Registry};
use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::signals::Signals;
use cli_core::ui::Ui;

/// Interval between two checks of the registry file.
const LOOK: Duration = Duration::from_secs(1);

/// Stand before a privileged runtime of this machine: check each call against a local registry, hand on
/// what it allows, refuse the rest with the reason.
///
/// The registry is a file with `rules`, which functions may be called, and `definitions`, what they take.
/// It is followed: a change is taken whole or, where it has a fault, not at all. What the rules allow is
/// registered at the server. The runtime is any server of spec 4's gRPC on a unix socket, such as
/// `toolkeep node serve --socket`, or a program with one of the SDKs. This process needs no rights but to
/// open that socket.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node forward node-abc123 --registry functions.yaml --socket runtime.sock --tls node")]
pub(crate) struct Forward {
    #[command(flatten)]
    called: Called,
    /// The local registry: YAML or JSON.
    #[arg(long, value_name = "FILE")]
    registry: PathBuf,
    /// The socket that the runtime serves on.
    #[arg(long, value_name = "FILE")]
    socket: PathBuf,
}

impl Forward {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let path = context.path(&self.registry);
        let mut seen = stamp(&path);
        let registry = Registry::read(&path).map_err(|error| {
            Failure::new(Exit::Usage, error.to_string()).fix("mend the registry")
        })?;
        let mut signals = Signals::new()?;
        let tools = registry.described();
        if tools.is_empty() {
            ui.note("no rule allows anything that is defined: every call will be refused");
        }
        let forwarder = Forwarder::new(registry, context.path(&self.socket));
        let options = self.called.options(context)?;
        let calls = Arc::new(forwarder.clone()) as Arc<dyn Tools>;
        let count = tools.len();
        let node = Node::offer(calls, tools, options).await.map_err(unstarted)?;
        self.called.told(&node, count, ui)?;
        loop {
            tokio::select! {
                () = signals.any() => break,
                () = tokio::time::sleep(LOOK) => {}
            }
            let now = stamp(&path);
            if now != seen {
                seen = now;
                reload(&path, &forwarder, &node).await;
            }
        }
        tracing::info!("stopping; once more ends at once");
        tokio::select! {
            () = node.stop() => Ok(Exit::Done),
            () = signals.any() => Err(Failure::new(Exit::Failed, "ended at once; calls that ran were cut off")),
        }
    }
}

/// Reloads the registry file; the last valid registry stays active if the new one is invalid.
async fn reload(path: &Path, forwarder: &Forwarder, node: &Node) {
    match Registry::read(path) {
        Ok(registry) => {
            let tools = registry.described();
            tracing::info!(tools = tools.len(), "registry taken");
            forwarder.set(registry);
            node.set(tools).await;
        }
        Err(error) => tracing::warn!(%error, "registry not taken, the last good one stays"),
    }
}

/// Modification time, size and inode of a file, to detect changes.
fn stamp(path: &Path) -> Option<(SystemTime, u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len(), about.ino()))
}
