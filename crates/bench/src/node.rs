//! `bench node`: a call to a node through the server compared with a direct gRPC call, and the cost
//! of a registry with many nodes.
//!
//! The first part uses real processes and connections. The second simulates the nodes: registry,
//! sources, catalog and resolver are the product's own, within this program.

mod call_latency;
mod registry_scale;
mod report;

use std::path::Path;
use std::time::Duration;

use crate::system_stats;
use crate::target_check;
use report::{NodeCallRow, NodeReport};

pub(crate) const USAGE: &str = "usage: cargo xtask bench node [--quick] [--write]

  --quick   few and short slices, and a tenth of the nodes: to see that it runs
  --write   also write the report, docs/reference/benchmarks-nodes.md";

/// The size of one benchmark run.
#[derive(Debug, Clone)]
struct NodeRunSize {
    callers: Vec<usize>,
    slice: Duration,
    rounds: usize,
    nodes: usize,
    tools: usize,
    swaps: usize,
    resolves: usize,
}

impl NodeRunSize {
    fn full_run() -> Self {
        let (slice, callers) = (Duration::from_millis(1500), vec![1, 16, 64]);
        Self { callers, slice, rounds: 6, nodes: 1_000, tools: 100, swaps: 51, resolves: 100_000 }
    }

    fn quick_run() -> Self {
        let (slice, nodes) = (Duration::from_millis(200), 100);
        Self { slice, nodes, rounds: 2, swaps: 11, resolves: 10_000, ..Self::full_run() }
    }
}

/// Runs the benchmark, prints the report and writes it if requested.
pub(crate) async fn run_node_bench(flags: &[&str]) -> Result<(), String> {
    let (mut sizes, mut file, mut binary) = (NodeRunSize::full_run(), None, None);
    let mut is_quick = false;
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match *flag {
            "--quick" => (sizes, is_quick) = (NodeRunSize::quick_run(), true),
            "--write" => file = Some(*flags.next().ok_or(USAGE)?),
            "--toolkeep" => binary = Some(Path::new(*flags.next().ok_or(USAGE)?)),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let binary = binary.ok_or(USAGE)?;
    // First, while this process uses little memory.
    let fleet = registry_scale::measure_registry(&sizes).await?;
    let calls: Vec<NodeCallRow> = call_latency::measure_calls(&sizes, binary).await?;
    let text = NodeReport { calls, registry: fleet, machine: system_stats::describe_machine() }
        .to_string();
    let verdict = target_check::publish_report(&text, file);
    // A quick run is too short for its targets; it fails only on errors.
    if is_quick { Ok(()) } else { verdict }
}

#[cfg(test)]
mod tests {
    use super::{NodeRunSize, registry_scale};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_figure_of_a_small_fleet_is_there() {
        let sizes =
            NodeRunSize { nodes: 20, tools: 5, swaps: 3, resolves: 50, ..NodeRunSize::quick_run() };
        let fleet = registry_scale::measure_registry(&sizes).await.unwrap();
        assert_eq!((fleet.nodes, fleet.tools), (20, 100));
        assert_eq!(fleet.swaps.len(), 3);
        assert!(fleet.resolves.len() == 50 && fleet.memory >= 0.0);
    }
}
