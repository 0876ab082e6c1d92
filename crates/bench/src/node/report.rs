//! Report of the node benchmark: docs/reference/benchmarks-nodes.md.

use std::fmt;
use std::time::Duration;

use super::registry_scale::RegistryResults;
use crate::histogram::LatencyHistogram;
use crate::report::median;
use crate::target_check;

/// Kinds of tools that are called through the server.
const TOOL_KINDS: [&str; 2] = ["may have effects", "only reads"];

/// Slices of all paths at one number of callers.
#[derive(Debug)]
pub(super) struct NodeCallRow {
    pub(super) callers: usize,
    pub(super) direct: Vec<(f64, LatencyHistogram)>,
    /// For each of [`TOOL_KINDS`].
    pub(super) proxied: Vec<Vec<(f64, LatencyHistogram)>>,
}

/// The complete report of one run.
pub(super) struct NodeReport {
    pub(super) calls: Vec<NodeCallRow>,
    pub(super) registry: RegistryResults,
    pub(super) machine: String,
}

const REPORT_HEAD: &str = "\
# What a call of a node's tool costs

Written by `cargo xtask bench node --write`; not by hand. A call through the server is gRPC on both sides: a key is
looked up, the tool found, the arguments checked, the intent written, the outcome recorded. The same call straight to
the node has none of that. What a node's tool does is unknown, so that it may have effects, and its intent is on the disk
before it runs; of the other tool the operator said that it changes nothing (`nodes.read_only`). The ways take turns,
slice by slice; the ratio is the median over the rounds of two slices of one round. Callers, server and node share the
machine: a server that did nothing but pass the call on would have both sides of gRPC twice where the straight way has
them once.
";

fn merge_latencies(slices: &[(f64, LatencyHistogram)]) -> LatencyHistogram {
    let mut all = LatencyHistogram::default();
    for (_, latencies) in slices {
        all.merge(latencies);
    }
    all
}

fn format_ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{REPORT_HEAD}\nMachine: {}.\n", self.machine)?;
        writeln!(
            f,
            "| callers | the tool | straight, calls/s | through, calls/s | ratio | to be | straight p50 | through p50 | through p99 |"
        )?;
        writeln!(f, "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
        for NodeCallRow { callers, direct: straight, proxied: through } in &self.calls {
            for (kind, through) in TOOL_KINDS.iter().zip(through) {
                let rates = |all: &[(f64, LatencyHistogram)]| {
                    median(&all.iter().map(|(rate, _)| *rate).collect::<Vec<_>>())
                };
                let pairs = straight.iter().zip(through);
                let ratio = median(
                    &pairs.map(|((one, _), (other, _))| other / one.max(1e-9)).collect::<Vec<_>>(),
                );
                let goal = match callers {
                    16 => target_check::at_least_target(ratio, 0.5, ""),
                    _ => target_check::NO_TARGET.to_owned(),
                };
                let (direct, served) = (merge_latencies(straight), merge_latencies(through));
                writeln!(
                    f,
                    "| {callers} | {kind} | {:.0} | {:.0} | {ratio:.2} | {goal} | {} | {} | {} |",
                    rates(straight),
                    rates(through),
                    format_ms(direct.quantile(0.5)),
                    format_ms(served.quantile(0.5)),
                    format_ms(served.quantile(0.99)),
                )?;
            }
        }
        write!(f, "{}", self.registry)
    }
}

impl fmt::Display for RegistryResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, tools, swaps, changes, merges, resolves, memory } = self;
        writeln!(f, "\n## {nodes} nodes with {tools} tools\n")?;
        writeln!(
            f,
            "Simulated: registry, sources, catalog and resolver are the product's, the machines are not there.\n"
        )?;
        writeln!(f, "| what | figure | to be |\n| --- | ---: | ---: |")?;
        writeln!(
            f,
            "| a shelf of {} tools swapped in, median | {} | {} |",
            tools / nodes.max(&1),
            format_ms(percentile(changes, 50)),
            target_check::within_target(percentile(changes, 50), Duration::from_millis(5))
        )?;
        writeln!(f, "| … longest | {} | – |", format_ms(percentile(changes, 100)))?;
        writeln!(
            f,
            "| all shelves merged anew, as at the start, median | {} | – |",
            format_ms(percentile(merges, 50))
        )?;
        writeln!(
            f,
            "| from a registration's answer until it is listed, median | {} | – |",
            format_ms(percentile(swaps, 50))
        )?;
        writeln!(f, "| … longest | {} | – |", format_ms(percentile(swaps, 100)))?;
        writeln!(f, "| a name resolved, median | {} | – |", format_ms(percentile(resolves, 50)))?;
        let resolved = percentile(resolves, 99);
        let goal = target_check::within_target(resolved, Duration::from_millis(1));
        writeln!(f, "| a name resolved, 99 of 100 within | {} | {goal} |", format_ms(resolved))?;
        let goal = target_check::below_target(*memory, 476.0, "MiB");
        writeln!(f, "| memory of registry, sources and catalog | {memory:.0} MiB | {goal} |")
    }
}
