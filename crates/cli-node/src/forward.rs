//! Implements `toolkeep node forward`, which checks calls against a local registry and forwards
//! them to a privileged runtime.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use proto::server::ToolService;
use sdk::Node;

use super::node_args::{NodeArgs, start_error};
use crate::call_forwarder::{CallForwarder, FunctionRegistry};
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;
use cli_core::signals::ShutdownSignals;

/// Interval between two checks of the registry file.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Forward calls to a privileged runtime on this machine after checking each one against a local
/// registry.
///
/// Rejected calls fail with the reason. The registry is a file with `rules`, which functions may be
/// called, and `definitions`, which arguments they take. Changes of the file are applied
/// atomically; if the new file is invalid, the last valid registry stays active. Only functions
/// that the rules allow are registered at the server.
///
/// The runtime is a gRPC server of the cluster tools on a Unix socket: `toolkeep node serve
/// --socket`, or a program with one of the SDKs. This process only needs permission to open that
/// socket.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep node forward node-abc123 --registry functions.yaml --socket runtime.sock --tls node")]
pub(crate) struct NodeForwardArgs {
    #[command(flatten)]
    node_args: NodeArgs,
    /// Local registry file, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    registry: PathBuf,
    /// Unix socket on which the runtime listens.
    #[arg(long, value_name = "FILE")]
    socket: PathBuf,
}

impl NodeForwardArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let path = context.absolute_path(&self.registry);
        let mut seen = read_file_stamp(&path);
        let registry = FunctionRegistry::from_file(&path).map_err(|error| {
            CommandError::new(ExitStatus::UsageError, error.to_string())
                .with_help("correct the registry file")
        })?;
        let mut signals = ShutdownSignals::new()?;
        let tools = registry.allowed_tools();
        if tools.is_empty() {
            ui.print_note("the rules allow no defined function: every call will be rejected");
        }
        let forwarder = CallForwarder::new(registry, context.absolute_path(&self.socket));
        let options = self.node_args.node_options(context)?;
        let calls = Arc::new(forwarder.clone()) as Arc<dyn ToolService>;
        let count = tools.len();
        let node = Node::start_with(calls, tools, options).await.map_err(start_error)?;
        self.node_args.print_started(&node, count, ui)?;
        loop {
            tokio::select! {
                () = signals.wait_any() => break,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            let now = read_file_stamp(&path);
            if now != seen {
                seen = now;
                reload_registry(&path, &forwarder, &node).await;
            }
        }
        tracing::info!("stopping after the running calls; send the signal again to stop at once");
        tokio::select! {
            () = node.stop() => Ok(ExitStatus::Success),
            () = signals.wait_any() => Err(CommandError::new(ExitStatus::Failed, "stopped at once; running calls were cancelled")),
        }
    }
}

/// Reloads the registry file; the last valid registry stays active if the new one is invalid.
async fn reload_registry(path: &Path, forwarder: &CallForwarder, node: &Node) {
    match FunctionRegistry::from_file(path) {
        Ok(registry) => {
            let tools = registry.allowed_tools();
            tracing::info!(tools = tools.len(), "registry applied");
            forwarder.set_registry(registry);
            node.replace_tools(tools).await;
        }
        Err(error) => tracing::warn!(%error, "invalid registry, the last valid one stays active"),
    }
}

/// The state of a file, to detect changes.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    modified: SystemTime,
    bytes: u64,
    inode: u64,
}

/// Reads the state of a file; `None` if it cannot be read.
fn read_file_stamp(path: &Path) -> Option<FileStamp> {
    let metadata = std::fs::metadata(path).ok()?;
    let modified = metadata.modified().ok()?;
    Some(FileStamp { modified, bytes: metadata.len(), inode: metadata.ino() })
}
