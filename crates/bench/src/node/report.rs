//! The table.

use std::fmt;
use std::time::Duration;

use super::fleet::Fleet;
use crate::goal;
use crate::histogram::Histogram;
use crate::report::median;

/// What the tools through the server are.
const KINDS: [&str; 2] = ["may have effects", "only reads"];

/// One number of callers: slices of all ways, in turn.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) callers: usize,
    pub(super) straight: Vec<(f64, Histogram)>,
    /// For each of [`KINDS`].
    pub(super) through: Vec<Vec<(f64, Histogram)>>,
}

/// All of it.
pub(super) struct Report {
    pub(super) calls: Vec<Row>,
    pub(super) fleet: Fleet,
    pub(super) machine: String,
}

const HEAD: &str = "\
# What a call of a node's tool costs

Written by `cargo xtask bench node --write`; not by hand. A call through the server is gRPC on both sides: a key is
looked up, the tool found, the arguments checked, the intent written, the outcome recorded. The same call straight to
the node has none of that. What a node's tool does is unknown, so that it may have effects, and its intent is on the disk
before it runs; of the other tool the operator said that it changes nothing (`nodes.read_only`). The ways take turns,
slice by slice; the ratio is the median over the rounds of two slices of one round. Callers, server and node share the
machine: a server that did nothing but pass the call on would have both sides of gRPC twice where the straight way has
them once.
";

fn merged(slices: &[(f64, Histogram)]) -> Histogram {
    let mut all = Histogram::default();
    for (_, latencies) in slices {
        all.merge(latencies);
    }
    all
}

fn ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

fn of(times: &[Duration], percent: usize) -> Duration {
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\nMachine: {}.\n", self.machine)?;
        writeln!(
            f,
            "| callers | the tool | straight, calls/s | through, calls/s | ratio | to be | straight p50 | through p50 | through p99 |"
        )?;
        writeln!(f, "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
        for Row { callers, straight, through } in &self.calls {
            for (kind, through) in KINDS.iter().zip(through) {
                let rates = |all: &[(f64, Histogram)]| {
                    median(&all.iter().map(|(rate, _)| *rate).collect::<Vec<_>>())
                };
                let pairs = straight.iter().zip(through);
                let ratio = median(
                    &pairs.map(|((one, _), (other, _))| other / one.max(1e-9)).collect::<Vec<_>>(),
                );
                let goal = match callers {
                    16 => goal::at_least(ratio, 0.5, ""),
                    _ => goal::OPEN.to_owned(),
                };
                let (direct, served) = (merged(straight), merged(through));
                writeln!(
                    f,
                    "| {callers} | {kind} | {:.0} | {:.0} | {ratio:.2} | {goal} | {} | {} | {} |",
                    rates(straight),
                    rates(through),
                    ms(direct.quantile(0.5)),
                    ms(served.quantile(0.5)),
                    ms(served.quantile(0.99)),
                )?;
            }
        }
        write!(f, "{}", self.fleet)
    }
}

impl fmt::Display for Fleet {
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
            ms(of(changes, 50)),
            goal::within(of(changes, 50), Duration::from_millis(5))
        )?;
        writeln!(f, "| … longest | {} | – |", ms(of(changes, 100)))?;
        writeln!(
            f,
            "| all shelves merged anew, as at the start, median | {} | – |",
            ms(of(merges, 50))
        )?;
        writeln!(
            f,
            "| from a registration's answer until it is listed, median | {} | – |",
            ms(of(swaps, 50))
        )?;
        writeln!(f, "| … longest | {} | – |", ms(of(swaps, 100)))?;
        writeln!(f, "| a name resolved, median | {} | – |", ms(of(resolves, 50)))?;
        let resolved = of(resolves, 99);
        let goal = goal::within(resolved, Duration::from_millis(1));
        writeln!(f, "| a name resolved, 99 of 100 within | {} | {goal} |", ms(resolved))?;
        let goal = goal::below(*memory, 476.0, "MiB");
        writeln!(f, "| memory of registry, sources and catalog | {memory:.0} MiB | {goal} |")
    }
}
