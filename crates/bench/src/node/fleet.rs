//! Many nodes with many tools, without machines: what holding them costs.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use catalog::{Catalog, Shelf};
use egress::{Egress, EgressSettings};
use intake::{Intake, Sourced, Times};
use nodes::{Addresses, Registry};
use store::MemoryStore;
use tool::node::{NodeTool, Nodes as _, Speaks};
use tool::{Clock, Json, Mono, Org, Source, Trust, Wall};

use super::Sizes;
use crate::machine;

/// What was found.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) nodes: usize,
    /// Of all of them together.
    pub(super) tools: usize,
    /// From a registration's answer until the catalog with it is there.
    pub(super) swaps: Vec<Duration>,
    /// One shelf that is another, to the next catalog: what of that is work.
    pub(super) changes: Vec<Duration>,
    /// All shelves to one catalog.
    pub(super) merges: Vec<Duration>,
    /// A tool's name to the address of its node.
    pub(super) resolves: Vec<Duration>,
    /// MiB for registry, sources and catalog.
    pub(super) memory: f64,
}

#[derive(Debug)]
struct Now(Instant);

impl Clock for Now {
    fn wall(&self) -> Wall {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Wall(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
    fn mono(&self) -> Mono {
        Mono(self.0.elapsed())
    }
}

fn tool(node: usize, number: usize) -> NodeTool {
    NodeTool {
        name: format!("tool_{node}_{number}"),
        node_id: format!("node-{node}"),
        input_spec: Json::of(&serde_json::json!({"text": "string", "times": "integer"})),
        metadata: Json::of(&serde_json::json!({"version": "1.0.0", "team": "tools"})),
        description: "One of very many tools that are there to be listed.".to_owned(),
    }
}

pub(super) async fn measured(sizes: &Sizes) -> Result<Fleet, String> {
    let resident = || machine::memory(std::process::id()).0;
    let before = resident();
    let clock: Arc<dyn Clock> = Arc::new(Now(Instant::now()));
    let registry = registered(sizes, &clock).await?;
    let sourced = |source| Sourced {
        source: source as Arc<dyn Source>,
        kind: "node",
        trust: Trust::Full,
        durability: None,
        poll: None,
        fingerprint: 0,
    };
    let sources = registry.sources().into_iter().map(sourced).collect();
    let intake = Intake::start(Org::default(), sources, Times::default(), clock);
    intake.settled().await;
    let memory = (resident() - before).max(0.0);
    let tools = sizes.nodes * sizes.tools;
    if intake.catalog().find(&format!("tool_0_{}", sizes.tools - 1)).is_none() {
        return Err("the tools are not in the catalog".to_owned());
    }
    let swaps = swapped(sizes, &registry, &intake).await?;
    let (merges, changes) = merged(sizes, &intake.catalog());
    let resolves = resolves(sizes, &registry, &intake)?;
    intake.close().await;
    Ok(Fleet { nodes: sizes.nodes, tools, swaps, changes, merges, resolves, memory })
}

/// A registry with all the tools, whose nodes have addresses.
async fn registered(sizes: &Sizes, clock: &Arc<dyn Clock>) -> Result<Registry, String> {
    let egress = Egress::new(EgressSettings::default()).map_err(|error| error.to_string())?;
    let opened = Registry::open(Arc::new(MemoryStore::new()), egress, Arc::clone(clock)).await;
    let registry = opened.map_err(|error| error.to_string())?;
    for node in 0..sizes.nodes {
        for number in 0..sizes.tools {
            let put = registry.register(&Speaks::All, tool(node, number)).await;
            put.map_err(|error| error.to_string())?;
        }
    }
    let url = |node| {
        (format!("node-{node}"), format!("https://10.0.{}.{}:50051", node / 250, node % 250 + 1))
    };
    let nodes = (0..sizes.nodes).map(url).collect();
    registry.set_addresses(Addresses { nodes, ..Addresses::default() });
    Ok(registry)
}

/// From a registration's answer until the tool is listed, sorted.
async fn swapped(
    sizes: &Sizes,
    registry: &Registry,
    intake: &Intake,
) -> Result<Vec<Duration>, String> {
    let mut swaps = Vec::new();
    for number in 0..sizes.swaps {
        let new = tool(number % sizes.nodes, sizes.tools + number);
        let name = new.name.clone();
        registry.register(&Speaks::All, new).await.map_err(|error| error.to_string())?;
        let mut numbers = intake.numbers();
        let begun = Instant::now();
        while intake.catalog().find(&name).is_none() {
            numbers.changed().await.map_err(|error| error.to_string())?;
        }
        swaps.push(begun.elapsed());
    }
    swaps.sort_unstable();
    Ok(swaps)
}

/// All shelves merged anew, and one shelf swapped in, each sorted.
fn merged(sizes: &Sizes, catalog: &Catalog) -> (Vec<Duration>, Vec<Duration>) {
    let merge = |_| {
        let (shelves, begun) = (catalog.shelves().cloned().collect(), Instant::now());
        drop(std::hint::black_box(Catalog::merge(0, shelves)));
        begun.elapsed()
    };
    let mut merges: Vec<_> = (0..sizes.swaps).map(merge).collect();
    merges.sort_unstable();
    let change = |number: usize| {
        let mut shelves: Vec<_> = catalog.shelves().cloned().collect();
        if let Some(shelf) = shelves.get_mut(number.wrapping_mul(7_919) % sizes.nodes) {
            *shelf = Arc::new(Shelf::clone(shelf));
        }
        let begun = Instant::now();
        drop(std::hint::black_box(catalog.next(catalog.number + 1, shelves)));
        begun.elapsed()
    };
    let mut changes: Vec<_> = (0..sizes.swaps).map(change).collect();
    changes.sort_unstable();
    (merges, changes)
}

/// As `/resolve` does it: the name's entry, its node, where that is.
fn resolves(sizes: &Sizes, registry: &Registry, intake: &Intake) -> Result<Vec<Duration>, String> {
    let mut times = Vec::with_capacity(sizes.resolves);
    for turn in 0..sizes.resolves {
        let node = turn.wrapping_mul(7_919) % sizes.nodes;
        let name = format!("tool_{node}_{}", turn % sizes.tools);
        let begun = Instant::now();
        let catalog = intake.catalog();
        let (_, entry) = catalog.find(&name).ok_or_else(|| format!("no tool `{name}`"))?;
        let source = entry.key.source.as_str();
        let id = source.strip_prefix(tool::node::PREFIX).unwrap_or(source);
        registry.endpoint(id).map_err(|error| error.to_string())?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}
