//! Implements `toolkeep node serve`, which offers the tools of this machine as a node.
//!
//! Calls pass through the pipeline of this process, with its policy, limits and record. There is no
//! other path to a tool.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use proto::node::Tool as Listed;
use proto::serve::{Asked, Boxed, Said, Tools};
use proto::{MetadataMap, Status};
use sdk::{Described, Node};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::called::{Called, unstarted};
use cli_core::background::hold;
use cli_core::context::Context;
use cli_core::data::{DataDir, FirstKey};
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::signals::Signals;
use cli_core::ui::Ui;
use cli_core::wiring::{Offers, Start};

/// Interval between two checks for changed tools.
const LOOK: Duration = Duration::from_secs(1);
/// The separator between a node's id and the name of a tool.
const DOT: char = '.';

/// Offer the tools of this machine to a server: the built-in ones, and those of its configuration, such
/// as a file with `mcpServers`.
///
/// It registers them, says that it lives, and takes them back at its end. They stand under `NODE.TOOL`, so
/// that they take no name of the server's own. Calls run as those of agent.key of this machine's data
/// directory: its own policy decides, and its own record keeps them. The key to register with is
/// TOOLKEEP_KEY, or else what the node got when it joined.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep node serve node-abc123 --tls node --listen 10.42.0.12:50051 --url https://tools.example
  toolkeep node serve node-abc123 --tls node --connect tools.example:50052 --url https://tools.example")]
pub(crate) struct Serve {
    #[command(flatten)]
    called: Called,
    /// What stands before the tools' names; nodes with the same one have their tools in common
    /// [default: the node's id and a dot].
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Offer these alone; `*` at the end stands for anything. May be given again.
    #[arg(long = "tool", value_name = "NAME")]
    only: Vec<String>,
    /// Serve on this socket instead and register nothing: for a forwarder on this machine
    /// (`toolkeep node forward`), which then is what the server knows.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "connect"])]
    socket: Option<PathBuf>,
}

impl Serve {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let setting = context.setting(None);
        let reading = config::read(&setting);
        let Some(config) = &reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        if !reading.faults.0.is_empty() {
            ui.note(&format!("{}\n\nthe above is left out", reading.faults));
        }
        let data = DataDir::at(config.data.clone());
        let (held, starting) = hold(&data).await?;
        let signals = Signals::new()?;
        let stop = CancellationToken::new();
        let start = Start::new(setting, reading, held, stop.clone())?;
        let running = context.wiring.start(start).await?;
        drop(starting);
        running.door.sources(SourceNeed::Overview, None).await;
        let mut ended = running.ended;
        let offered = async {
            let offered = self.offer((&data, &running.offers), (context, ui), signals).await;
            stop.cancel();
            offered
        };
        // The parts that the tools need run while `ended` is polled.
        let offered = tokio::select! {
            ended = &mut ended => return ended.map(|()| Exit::Done),
            offered = offered => offered,
        };
        ended.await?;
        offered.map(|()| Exit::Done)
    }

    /// Serves the tools until a signal arrives, and then until they are unregistered and the calls
    /// have ended.
    async fn offer(
        &self,
        (data, offers): (&DataDir, &Offers),
        (context, ui): (&Context<'_>, &mut Ui),
        mut signals: Signals,
    ) -> Result<(), Failure> {
        let calls: Arc<dyn Tools> = offers.open(&data.key(FirstKey::Agent)?)?;
        let id = &self.called.node_id;
        let prefix = self.prefix.clone().unwrap_or_else(|| format!("{id}{DOT}"));
        // The default prefix is unique; a custom one shares the tools with other nodes.
        let shared = prefix != format!("{id}{DOT}");
        let named = Arc::new(Named { calls, prefix, shared, only: self.only.clone() });
        let mut tools = named.described().await?;
        if tools.is_empty() {
            ui.note("there is no such tool here now; it is looked for each second");
        }
        let options = match &self.socket {
            Some(path) => sdk::Options::default().node_id(id).socket(context.path(path)),
            None => self.called.options(context)?,
        };
        let node = Node::offer(Arc::new(Door(Arc::clone(&named))), tools.clone(), options);
        let node = node.await.map_err(unstarted)?;
        self.told(&node, tools.len(), ui)?;
        tokio::select! {
            followed = follow(&named, &node, &mut tools) => return followed,
            () = signals.any() => {}
        }
        tracing::info!("stopping; once more ends at once");
        tokio::select! {
            () = node.stop() => Ok(()),
            () = signals.any() => Err(Failure::new(Exit::Failed, "ended at once; calls that ran were cut off")),
        }
    }
}

impl Serve {
    /// Prints that the node has started.
    fn told(&self, node: &Node, tools: usize, ui: &mut Ui) -> Result<(), Failure> {
        let Some(path) = &self.socket else { return self.called.told(node, tools, ui) };
        let id = &self.called.node_id;
        let told = json!({"node_id": id, "socket": path, "tools": tools});
        ui.answer(&told, || format!("{id} serves {tools} tools on {}", path.display()))
    }
}

/// Registers new tools and unregisters removed ones; returns only if the tools cannot be listed.
async fn follow(named: &Named, node: &Node, tools: &mut Vec<Described>) -> Result<(), Failure> {
    loop {
        tokio::time::sleep(LOOK).await;
        let now = named.described().await?;
        if now != *tools {
            node.set(now.clone()).await;
            *tools = now;
        }
    }
}

/// The tools of this machine under the names with which they are offered.
struct Named {
    calls: Arc<dyn Tools>,
    prefix: String,
    /// Whether other nodes may offer the same tools.
    shared: bool,
    only: Vec<String>,
}

impl Named {
    fn offers(&self, name: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == pattern,
        };
        self.only.is_empty() || self.only.iter().any(fits)
    }

    async fn listed(&self) -> Result<Vec<Listed>, Status> {
        let all = self.calls.list(MetadataMap::new()).await?.into_iter();
        let named = |tool: Listed| {
            let name = format!("{}{}", self.prefix, tool.name);
            Listed { name, metadata: "{}".into(), ..tool }
        };
        Ok(all.filter(|tool| self.offers(&tool.name)).map(named).collect())
    }

    async fn described(&self) -> Result<Vec<Described>, Failure> {
        let listed = self.listed().await;
        let listed = listed.map_err(|status| {
            Failure::new(Exit::Refused, format!("agent.key lists no tools: {}", status.message()))
                .fix("have it made anew: `toolkeep serve --make-keys` with this data directory")
        })?;
        let described = |tool: Listed| Described {
            name: tool.name,
            description: tool.description,
            input_spec: serde_json::from_slice(&tool.input_spec)
                .unwrap_or_else(|_| Value::Object(serde_json::Map::new())),
            metadata: if self.shared { json!({"shared": true}) } else { json!({}) },
        };
        Ok(listed.into_iter().map(described).collect())
    }
}

/// The tool service that a server calls.
struct Door(Arc<Named>);

impl Tools for Door {
    fn who(&self, headers: MetadataMap) -> Boxed<Result<String, Status>> {
        self.0.calls.who(headers)
    }

    fn list(&self, _: MetadataMap) -> Boxed<Result<Vec<Listed>, Status>> {
        let named = Arc::clone(&self.0);
        Box::pin(async move { named.listed().await })
    }

    fn call(&self, asked: Asked) -> Boxed<Result<Said, Status>> {
        let own = asked.tool_name.strip_prefix(&self.0.prefix).filter(|name| self.0.offers(name));
        if let Some(tool_name) = own.map(str::to_owned) {
            return self.0.calls.call(Asked { tool_name, ..asked });
        }
        let error = format!("Tool '{}' not found.", asked.tool_name);
        Box::pin(std::future::ready(Ok(Said { error, ..Said::default() })))
    }

    fn node_id(&self) -> String {
        String::new()
    }

    fn draining(&self) -> bool {
        self.0.calls.draining()
    }
}
