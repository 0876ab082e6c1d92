//! Benchmark of a registry with many nodes and tools, simulated without real machines.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use catalog::{Catalog, SourceCatalog};
use egress::{EgressClient, EgressOptions};
use intake::{ConfiguredSource, SourceSupervisor, SupervisorTimeouts};
use nodes::{NodeAddresses, PersistentNodeRegistry};
use store::MemoryStore;
use tool::clock::duration_millis;
use tool::node_registry::{NodeAccess, NodeRegistry as _, NodeTool};
use tool::{Clock, Json, MonotonicTime, Org, Source, SourceTrust, WallTime};

use super::NodeRunSize;
use crate::system_stats;

/// Figures of the registry benchmark.
#[derive(Debug)]
pub(super) struct RegistryResults {
    pub(super) nodes: usize,
    /// Number of tools of all nodes.
    pub(super) tools: usize,
    /// Time from a registration's response until the catalog contains the tool.
    pub(super) swaps: Vec<Duration>,
    /// Time to build the next catalog after one source changed.
    pub(super) changes: Vec<Duration>,
    /// Time to merge all sources into one catalog.
    pub(super) merges: Vec<Duration>,
    /// Time to resolve a tool name to the address of its node.
    pub(super) resolves: Vec<Duration>,
    /// Memory of registry, sources and catalog, in MiB.
    pub(super) memory: f64,
}

#[derive(Debug)]
struct ProcessClock(Instant);

impl Clock for ProcessClock {
    fn wall_now(&self) -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime(duration_millis(since))
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(self.0.elapsed())
    }
}

fn node_tool(node: usize, number: usize) -> NodeTool {
    NodeTool {
        name: format!("tool_{node}_{number}"),
        node_id: format!("node-{node}"),
        input_spec: Json::encode(&serde_json::json!({"text": "string", "times": "integer"})),
        metadata: Json::encode(&serde_json::json!({"version": "1.0.0", "team": "tools"})),
        description: "One of very many tools that are there to be listed.".to_owned(),
    }
}

pub(super) async fn measure_registry(sizes: &NodeRunSize) -> Result<RegistryResults, String> {
    let resident = || system_stats::process_memory(std::process::id()).0;
    let before = resident();
    let clock: Arc<dyn Clock> = Arc::new(ProcessClock(Instant::now()));
    let registry = build_registry(sizes, &clock).await?;
    let sourced =
        |source| ConfiguredSource::new(source as Arc<dyn Source>, "node", SourceTrust::Full, 0);
    let sources = registry.node_sources().into_iter().map(sourced).collect();
    let intake = SourceSupervisor::start_sources(
        Org::default(),
        sources,
        SupervisorTimeouts::default(),
        clock,
    );
    intake.wait_until_listed().await;
    let memory = (resident() - before).max(0.0);
    let tools = sizes.nodes * sizes.tools;
    if intake.catalog().find_tool(&format!("tool_0_{}", sizes.tools - 1)).is_none() {
        return Err("the tools are not in the catalog".to_owned());
    }
    let swaps = measure_swaps(sizes, &registry, &intake).await?;
    let (merges, changes) = measure_merges(sizes, &intake.catalog());
    let resolves = measure_resolves(sizes, &registry, &intake)?;
    intake.shut_down().await;
    Ok(RegistryResults { nodes: sizes.nodes, tools, swaps, changes, merges, resolves, memory })
}

/// Builds a registry with all tools and with addresses for all nodes.
async fn build_registry(
    sizes: &NodeRunSize,
    clock: &Arc<dyn Clock>,
) -> Result<PersistentNodeRegistry, String> {
    let egress = EgressClient::new(EgressOptions::default()).map_err(|error| error.to_string())?;
    let opened =
        PersistentNodeRegistry::open_local(Arc::new(MemoryStore::new()), egress, Arc::clone(clock))
            .await;
    let registry = opened.map_err(|error| error.to_string())?;
    for node in 0..sizes.nodes {
        for number in 0..sizes.tools {
            let put = registry.register_tool(&NodeAccess::All, node_tool(node, number)).await;
            put.map_err(|error| error.to_string())?;
        }
    }
    let url = |node| {
        (format!("node-{node}"), format!("https://10.0.{}.{}:50051", node / 250, node % 250 + 1))
    };
    let nodes = (0..sizes.nodes).map(url).collect();
    registry.set_addresses(NodeAddresses { urls: nodes, ..NodeAddresses::default() });
    Ok(registry)
}

/// Measures the time from a registration's response until the tool is listed, sorted.
async fn measure_swaps(
    sizes: &NodeRunSize,
    registry: &PersistentNodeRegistry,
    intake: &SourceSupervisor,
) -> Result<Vec<Duration>, String> {
    let mut swaps = Vec::new();
    for number in 0..sizes.swaps {
        let new = node_tool(number % sizes.nodes, sizes.tools + number);
        let name = new.name.clone();
        registry.register_tool(&NodeAccess::All, new).await.map_err(|error| error.to_string())?;
        let mut numbers = intake.subscribe_versions();
        let begun = Instant::now();
        while intake.catalog().find_tool(&name).is_none() {
            numbers.changed().await.map_err(|error| error.to_string())?;
        }
        swaps.push(begun.elapsed());
    }
    swaps.sort_unstable();
    Ok(swaps)
}

/// Measures a full merge of all sources and the replacement of one source, each sorted.
fn measure_merges(sizes: &NodeRunSize, catalog: &Catalog) -> (Vec<Duration>, Vec<Duration>) {
    let merge = |_| {
        let (shelves, begun) = (catalog.list_sources().cloned().collect(), Instant::now());
        drop(std::hint::black_box(Catalog::from_sources(0, shelves)));
        begun.elapsed()
    };
    let mut merges: Vec<_> = (0..sizes.swaps).map(merge).collect();
    merges.sort_unstable();
    let change = |number: usize| {
        let mut shelves: Vec<_> = catalog.list_sources().cloned().collect();
        if let Some(shelf) = shelves.get_mut(number.wrapping_mul(7_919) % sizes.nodes) {
            *shelf = Arc::new(SourceCatalog::clone(shelf));
        }
        let begun = Instant::now();
        drop(std::hint::black_box(catalog.with_sources(catalog.version + 1, shelves)));
        begun.elapsed()
    };
    let mut changes: Vec<_> = (0..sizes.swaps).map(change).collect();
    changes.sort_unstable();
    (merges, changes)
}

/// Measures name resolution as `/resolve` does it: the entry of the name, its node, the node's
/// address.
fn measure_resolves(
    sizes: &NodeRunSize,
    registry: &PersistentNodeRegistry,
    intake: &SourceSupervisor,
) -> Result<Vec<Duration>, String> {
    let mut times = Vec::with_capacity(sizes.resolves);
    for turn in 0..sizes.resolves {
        let node = turn.wrapping_mul(7_919) % sizes.nodes;
        let name = format!("tool_{node}_{}", turn % sizes.tools);
        let begun = Instant::now();
        let catalog = intake.catalog();
        let (_, entry) = catalog.find_tool(&name).ok_or_else(|| format!("no tool `{name}`"))?;
        let source = entry.tool_key.source.as_str();
        let id = source.strip_prefix(tool::node_registry::NODE_SOURCE_PREFIX).unwrap_or(source);
        registry.resolve_endpoint(id).map_err(|error| error.to_string())?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}
