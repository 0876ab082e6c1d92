//! Implements `toolkeep node serve`, which offers the tools of this machine as a node.
//!
//! Calls pass through the pipeline of this process, with its policy, limits and record. There is no
//! other path to a tool.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use proto::node::Tool as Listed;
use proto::server::{FunctionResult, IncomingCall, ServiceFuture, ToolService};
use proto::{MetadataMap, Status};
use sdk::{Node, ToolDefinition};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::node_args::{NodeArgs, matches_pattern, start_error};
use cli_core::background_server::acquire_data_dir;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::{DataDir, FirstKey};
use cli_core::printer::Printer;
use cli_core::server_launcher::{LaunchOptions, ToolServerFactory};
use cli_core::server_transport::SourceNeed;
use cli_core::signals::ShutdownSignals;

/// Interval between two checks for changed tools.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The separator between a node's id and the name of a tool.
const NODE_ID_SEPARATOR: char = '.';

/// Serve the tools of this machine to a server: built-in tools and those of the configuration, such
/// as a `mcpServers` file.
///
/// Registers the tools, sends heartbeats and unregisters the tools when it ends. Tools are named
/// `NODE.TOOL`, so that they cannot replace tools of the server. Calls run with agent.key of this
/// machine's data directory: its policy decides on them, and its record contains them. Registers
/// with TOOLKEEP_KEY, or with the key that `toolkeep node join` stored.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep node serve node-abc123 --tls node --listen 10.42.0.12:50051 --url https://tools.example
  toolkeep node serve node-abc123 --tls node --connect tools.example:50052 --url https://tools.example")]
pub(crate) struct NodeServeArgs {
    #[command(flatten)]
    node_args: NodeArgs,
    /// Prefix of the tool names. Nodes with the same prefix share their tools [default: the node's
    /// ID and a dot].
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Serve only these tools. A pattern may end with `*`. Can be repeated.
    #[arg(long = "tool", value_name = "NAME")]
    only: Vec<String>,
    /// Listen on this Unix socket and register nothing, for a local forwarder (`toolkeep node
    /// forward`) that the server knows instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "connect"])]
    socket: Option<PathBuf>,
}

impl NodeServeArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let setting = context.load_options(None);
        let reading = config::load_config(&setting);
        let Some(config) = &reading.config else {
            return Err(CommandError::from_config_errors(reading.errors));
        };
        if !reading.errors.0.is_empty() {
            ui.print_note(&format!("{}\n\nthe entries above are omitted", reading.errors));
        }
        let data = DataDir::new(config.data_dir.clone());
        let (held, starting) = acquire_data_dir(&data).await?;
        let signals = ShutdownSignals::new()?;
        let stop = CancellationToken::new();
        let start = LaunchOptions::new(setting, reading, held, stop.clone())?;
        let running = context.launcher.launch_server(start).await?;
        drop(starting);
        running.transport.wait_for_sources(SourceNeed::Overview, None).await;
        let mut ended = running.completion;
        let offered = async {
            let offered = self
                .serve_until_signal((&data, &running.tool_server_factory), (context, ui), signals)
                .await;
            stop.cancel();
            offered
        };
        // The parts that the tools need run while `ended` is polled.
        let offered = tokio::select! {
            ended = &mut ended => return ended.map(|()| ExitStatus::Success),
            offered = offered => offered,
        };
        ended.await?;
        offered.map(|()| ExitStatus::Success)
    }

    /// Serves the tools until a signal arrives, and then until they are unregistered and the calls
    /// have ended.
    async fn serve_until_signal(
        &self,
        (data, offers): (&DataDir, &ToolServerFactory),
        (context, ui): (&CommandContext<'_>, &mut Printer),
        mut signals: ShutdownSignals,
    ) -> Result<(), CommandError> {
        let calls: Arc<dyn ToolService> = offers.open(&data.read_key(FirstKey::Agent)?)?;
        let id = &self.node_args.node_id;
        let prefix = self.prefix.clone().unwrap_or_else(|| format!("{id}{NODE_ID_SEPARATOR}"));
        // The default prefix is unique; a custom one shares the tools with other nodes.
        let shared = prefix != format!("{id}{NODE_ID_SEPARATOR}");
        let named = Arc::new(PrefixedTools {
            calls,
            prefix,
            is_shared: shared,
            patterns: self.only.clone(),
        });
        let mut tools = named.describe_tools().await?;
        if tools.is_empty() {
            ui.print_note("the tool does not exist; checking again every second");
        }
        let options = match &self.socket {
            Some(path) => {
                sdk::NodeOptions::default().node_id(id).socket(context.absolute_path(path))
            }
            None => self.node_args.node_options(context)?,
        };
        let node = Node::start_with(
            Arc::new(PrefixedToolService(Arc::clone(&named))),
            tools.clone(),
            options,
        );
        let node = node.await.map_err(start_error)?;
        self.print_started(&node, tools.len(), ui)?;
        tokio::select! {
            followed = sync_tools(&named, &node, &mut tools) => return followed,
            () = signals.wait_any() => {}
        }
        tracing::info!("stopping after the running calls; send the signal again to stop at once");
        tokio::select! {
            () = node.stop() => Ok(()),
            () = signals.wait_any() => Err(CommandError::new(ExitStatus::Failed, "stopped at once; running calls were cancelled")),
        }
    }
}

impl NodeServeArgs {
    /// Prints that the node has started.
    fn print_started(
        &self,
        node: &Node,
        tools: usize,
        ui: &mut Printer,
    ) -> Result<(), CommandError> {
        let Some(path) = &self.socket else { return self.node_args.print_started(node, tools, ui) };
        let id = &self.node_args.node_id;
        let told = json!({"node_id": id, "socket": path, "tools": tools});
        ui.print_result(&told, || format!("{id} serves {tools} tools on {}", path.display()))
    }
}

/// Registers new tools and unregisters removed ones; returns only if the tools cannot be listed.
async fn sync_tools(
    named: &PrefixedTools,
    node: &Node,
    tools: &mut Vec<ToolDefinition>,
) -> Result<(), CommandError> {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = named.describe_tools().await?;
        if now != *tools {
            node.replace_tools(now.clone()).await;
            *tools = now;
        }
    }
}

/// The tools of this machine under the names with which they are offered.
struct PrefixedTools {
    calls: Arc<dyn ToolService>,
    prefix: String,
    /// Whether other nodes may offer the same tools.
    is_shared: bool,
    patterns: Vec<String>,
}

impl PrefixedTools {
    fn is_offered(&self, name: &str) -> bool {
        self.patterns.is_empty()
            || self.patterns.iter().any(|pattern| matches_pattern(pattern, name))
    }

    async fn list_tools(&self) -> Result<Vec<Listed>, Status> {
        let all = self.calls.list_tools(MetadataMap::new()).await?.into_iter();
        let named = |tool: Listed| {
            let name = format!("{}{}", self.prefix, tool.name);
            Listed { name, metadata: "{}".into(), ..tool }
        };
        Ok(all.filter(|tool| self.is_offered(&tool.name)).map(named).collect())
    }

    async fn describe_tools(&self) -> Result<Vec<ToolDefinition>, CommandError> {
        let listed = self.list_tools().await;
        let listed = listed.map_err(|status| {
            CommandError::new(
                ExitStatus::Refused,
                format!("agent.key cannot list tools: {}", status.message()),
            )
            .with_help("create it again with `toolkeep serve --make-keys` and this data directory")
        })?;
        let described = |tool: Listed| ToolDefinition {
            name: tool.name,
            description: tool.description,
            input_spec: serde_json::from_slice(&tool.input_spec)
                .unwrap_or_else(|_| Value::Object(serde_json::Map::new())),
            metadata: if self.is_shared { json!({"shared": true}) } else { json!({}) },
        };
        Ok(listed.into_iter().map(described).collect())
    }
}

/// The tool service that a server calls.
struct PrefixedToolService(Arc<PrefixedTools>);

impl ToolService for PrefixedToolService {
    fn caller_id(&self, headers: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        self.0.calls.caller_id(headers)
    }

    fn list_tools(&self, _: MetadataMap) -> ServiceFuture<Result<Vec<Listed>, Status>> {
        let named = Arc::clone(&self.0);
        Box::pin(async move { named.list_tools().await })
    }

    fn call_tool(&self, asked: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        let own =
            asked.tool_name.strip_prefix(&self.0.prefix).filter(|name| self.0.is_offered(name));
        if let Some(tool_name) = own.map(str::to_owned) {
            return self.0.calls.call_tool(IncomingCall { tool_name, ..asked });
        }
        let error = format!("Tool '{}' not found.", asked.tool_name);
        Box::pin(std::future::ready(Ok(FunctionResult { error, ..FunctionResult::default() })))
    }

    fn node_id(&self) -> String {
        String::new()
    }

    fn is_draining(&self) -> bool {
        self.0.calls.is_draining()
    }
}
