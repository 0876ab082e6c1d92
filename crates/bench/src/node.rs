//! `bench node`: what a call costs that goes through the server to a node, beside the same gRPC call
//! straight to that node; and what many nodes with many tools cost who holds their registry.
//!
//! The first has real processes and real connections. The second has no machines: registry, sources,
//! catalog and resolver are the product's own, within this program.

mod calls;
mod fleet;
mod report;

use std::path::Path;
use std::time::Duration;

use crate::goal;
use crate::machine;
use report::{Report, Row};

pub(crate) const USAGE: &str = "usage: cargo xtask bench node [--quick] [--write]

  --quick   few and short slices, and a tenth of the nodes: to see that it runs
  --write   also write the report, docs/reference/benchmarks-nodes.md";

/// How much is measured.
#[derive(Debug, Clone)]
struct Sizes {
    callers: Vec<usize>,
    slice: Duration,
    rounds: usize,
    nodes: usize,
    tools: usize,
    swaps: usize,
    resolves: usize,
}

impl Sizes {
    fn full() -> Self {
        let (slice, callers) = (Duration::from_millis(1500), vec![1, 16, 64]);
        Self { callers, slice, rounds: 6, nodes: 1_000, tools: 100, swaps: 51, resolves: 100_000 }
    }

    fn quick() -> Self {
        let (slice, nodes) = (Duration::from_millis(200), 100);
        Self { slice, nodes, rounds: 2, swaps: 11, resolves: 10_000, ..Self::full() }
    }
}

/// Measures, prints, and writes where asked.
pub(crate) async fn run(flags: &[&str]) -> Result<(), String> {
    let (mut sizes, mut file, mut binary) = (Sizes::full(), None, None);
    let mut is_quick = false;
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        match *flag {
            "--quick" => (sizes, is_quick) = (Sizes::quick(), true),
            "--write" => file = Some(*flags.next().ok_or(USAGE)?),
            "--toolkeep" => binary = Some(Path::new(*flags.next().ok_or(USAGE)?)),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let binary = binary.ok_or(USAGE)?;
    // First, while this program is small.
    let fleet = fleet::measured(&sizes).await?;
    let calls: Vec<Row> = calls::measured(&sizes, binary).await?;
    let text = Report { calls, fleet, machine: machine::describe() }.to_string();
    let judged = goal::publish(&text, file);
    // A quick run is too short to be judged: it fails only where it cannot be made.
    if is_quick { Ok(()) } else { judged }
}

#[cfg(test)]
mod tests {
    use super::{Sizes, fleet};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_figure_of_a_small_fleet_is_there() {
        let sizes = Sizes { nodes: 20, tools: 5, swaps: 3, resolves: 50, ..Sizes::quick() };
        let fleet = fleet::measured(&sizes).await.unwrap();
        assert_eq!((fleet.nodes, fleet.tools), (20, 100));
        assert_eq!(fleet.swaps.len(), 3);
        assert!(fleet.resolves.len() == 50 && fleet.memory >= 0.0);
    }
}
