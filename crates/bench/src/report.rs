//! Report of the call benchmark: docs/reference/benchmarks.md.

use std::fmt;

use crate::call::{DIRECT_NAME, PROXY_NAME};
use crate::options::CallOptions;
use crate::peer_gateways;
use crate::target::TargetSeries;
use crate::tool_lists::ListResults;

/// The complete report of one run.
pub(crate) struct CallReport<'a> {
    pub(crate) options: &'a CallOptions,
    pub(crate) machine: String,
    pub(crate) counting: Result<(), String>,
    pub(crate) calls: Vec<TargetSeries>,
    /// Requested gateways that were not measured, with the reason.
    pub(crate) missing: Vec<String>,
    pub(crate) lists: Vec<ListResults>,
}

const REPORT_HEAD: &str = "\
# What a call costs

Written by `cargo xtask bench call`; not by hand. All programs run on one machine and speak over \
loopback. The targets take turns in short slices, because a machine may be fast in one minute and slow \
in the next; a ratio is the median over the rounds of two slices of the same round. \
Requests per second alone say little: compare the ratios, and CPU for one call.
";

const LEGEND: &str = "\
`direct` is an MCP server made with rmcp, without sessions; `bare proxy` passes HTTP on in front of it and \
checks nothing. CPU is that of the target's own process, and of all processes that a call passes, the callers \
left out. Memory is resident at the end, and the most it ever was. The ratio of CPU counts the callers too: \
it is the share of direct's calls that would remain if the machine did nothing else, and it moves less than calls/s. \
With `http: standard` (`server.http`) hyper alone reads and writes HTTP/1.1, towards callers and towards the MCP server.
";

const PEERS: &str = "\
`fastmcp proxy` is `create_proxy` of the PyPI package fastmcp, without sessions and without keys; `ContextForge` is \
mcp-contextforge-gateway on SQLite with one worker, with a token of its own, without its limit on requests, its page and \
its telemetry. Both as `pip` installs them; the versions stand in `xtask/src/pinned_versions.rs`.
";

const INSTRUCTIONS: &str = "\
## Instructions of Toolkeep's own process

`cargo xtask bench call --instructions` counts them with valgrind's callgrind, without those of the kernel: for \
machines without counters, and for those that others use too. They are the same from run to run within about one \
in a hundred. SHA-256 is counted apart: valgrind has none of the processor's instructions for it, with which it takes a \
twentieth. Where more than some kilobytes are copied at once, callgrind counts each byte as one instruction. \
Those of the whole system: \
[benchmarks-instructions.md](benchmarks-instructions.md). What was saved where: docs/design/runtime.md.
";

impl CallReport<'_> {
    /// Counts wrong answers; failures of other gateways appear only in the table.
    pub(crate) fn count_failures(&self) -> u64 {
        let lists = self.lists.iter().flat_map(|list| &list.series);
        let ours = self
            .calls
            .iter()
            .filter(|series| !peer_gateways::PEER_NAMES.contains(&&*series.target));
        ours.chain(lists).map(TargetSeries::total_failures).sum()
    }

    fn write_conditions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = self.lists.iter().flat_map(|list| &list.series);
        let samples = self.calls.iter().chain(lists).flat_map(|series| &series.samples);
        let foreign: Vec<f64> = samples.map(|sample| sample.foreign_share * 100.0).collect();
        let CallOptions { slice, rounds, .. } = self.options;
        writeln!(
            f,
            "Machine: {}. {rounds} rounds of {:.1} s each.",
            self.machine,
            slice.as_secs_f64()
        )?;
        let most = foreign.iter().copied().fold(0.0, f64::max);
        write!(
            f,
            "Other programs used {:.0} % of it in the median slice, {most:.0} % in the worst.",
            median(&foreign)
        )?;
        if median(&foreign) > 10.0 {
            write!(f, " **That is too much: measure again on a quiet machine.**")?;
        }
        writeln!(f)?;
        if let Err(why) = &self.counting {
            writeln!(f, "Instructions for one call are not counted: {why}.")?;
        }
        Ok(())
    }

    fn write_ratios(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = [
            "callers",
            "target",
            "calls/s of direct",
            "calls/s of the bare proxy",
            "CPU of all: direct / target",
            "instructions: direct / target",
        ];
        writeln!(f, "| {} |\n| ---: | --- | ---: | ---: | ---: | ---: |", columns.join(" | "))?;
        for series in self.calls.iter().filter(|series| series.target != DIRECT_NAME) {
            let beside = |name: &str| {
                let same =
                    |other: &&TargetSeries| other.target == name && other.callers == series.callers;
                self.calls.iter().find(same)
            };
            let rate = |name: &str| beside(name).map(|other| median_ratio(series, other));
            let whole = |series: &TargetSeries| series.cpu_per_call(|sample| sample.total_cpu);
            let cpu = beside(DIRECT_NAME).map(|direct| whole(direct) / whole(series));
            let model =
                beside(DIRECT_NAME).and_then(|d| Some(d.instructions? / series.instructions?));
            let figures =
                [rate(DIRECT_NAME), rate(PROXY_NAME), cpu, model].map(format_ratio).join(" | ");
            writeln!(f, "| {} | {} | {figures} |", series.callers, series.target)?;
        }
        Ok(())
    }
}

/// Formats a ratio with two digits, or a dash without value.
fn format_ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
}

impl fmt::Display for CallReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{REPORT_HEAD}")?;
        self.write_conditions(f)?;
        writeln!(f, "\n## tools/call\n\n{LEGEND}")?;
        if self.options.peers.is_some() {
            writeln!(f, "{PEERS}")?;
            self.missing.iter().try_for_each(|why| writeln!(f, "{why}.\n"))?;
        }
        write_table(f, &self.calls)?;
        writeln!(f, "\nRatios of the same run:\n")?;
        self.write_ratios(f)?;
        if !self.lists.is_empty() {
            self.write_lists(f)?;
        }
        write!(f, "\n{INSTRUCTIONS}")
    }
}

impl CallReport<'_> {
    fn write_lists(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n## tools/list\n\nAt 16 callers, beside an axum server that holds the same bytes ready, and the MCP server behind, which makes its list anew. Callers that take gzip get the list as it was packed once; they are not made to unpack it here.\n"
        )?;
        let all = self.lists.iter().flat_map(|list| &list.series);
        write_table(f, all)?;
        let head = "| tools | bytes | calls/s of axum | calls/s of the server behind | with gzip, of the server behind |";
        writeln!(f, "\n{head}\n| ---: | ---: | ---: | ---: | ---: |")?;
        for ListResults { tools, bytes, series } in &self.lists {
            let of = |made: usize, other: usize| {
                format_ratio(
                    series.get(made).zip(series.get(other)).map(|(m, o)| median_ratio(m, o)),
                )
            };
            let (axum, behind, packed) = (of(0, 1), of(0, 2), of(3, 2));
            writeln!(f, "| {tools} | {bytes} | {axum} | {behind} | {packed} |")?;
        }
        Ok(())
    }
}

fn write_table<'a>(
    f: &mut fmt::Formatter<'_>,
    all: impl IntoIterator<Item = &'a TargetSeries>,
) -> fmt::Result {
    writeln!(
        f,
        "| callers | target | calls/s (least – most) | p50 ms | p99 ms | CPU µs/call | CPU µs/call, all | memory MiB | k instr/call | failed |"
    )?;
    writeln!(f, "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    for series in all {
        let rates = series.rates();
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        let ms = |share| series.quantile(share).as_secs_f64() * 1000.0;
        let (own, chain) = (
            series.cpu_per_call(|sample| sample.own_cpu),
            series.cpu_per_call(|sample| sample.chain_cpu),
        );
        let (now, peak) = series.memory;
        let count =
            series.instructions.map_or_else(|| "–".to_owned(), |n| format!("{:.0}", n / 1000.0));
        write!(
            f,
            "| {} | {} | {:.0} ({least:.0} – {most:.0}) ",
            series.callers,
            series.target,
            median(&rates)
        )?;
        write!(f, "| {:.3} | {:.3} | {own:.1} | {chain:.1} ", ms(0.5), ms(0.99))?;
        writeln!(f, "| {now:.0} / {peak:.0} | {count} | {} |", series.total_failures())?;
    }
    Ok(())
}

/// Returns the rate of `one` relative to `other`: the median over the rounds.
fn median_ratio(one: &TargetSeries, other: &TargetSeries) -> f64 {
    let pairs = one.samples.iter().zip(&other.samples);
    let ratios: Vec<f64> = pairs.map(|(one, other)| one.rate / other.rate.max(1e-9)).collect();
    median(&ratios)
}

/// Returns the median; the mean of the two middle values, or zero without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
    if sorted.len() % 2 == 1 {
        at(middle)
    } else {
        f64::midpoint(at(middle.saturating_sub(1)), at(middle))
    }
}

#[cfg(test)]
mod tests {
    use super::{CallReport, median};
    use crate::options::CallOptions;
    use crate::target::TargetSeries;
    use crate::target::tests::sample_series;

    #[test]
    fn medians() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(&[]).abs() < 1e-9);
    }

    #[test]
    fn ratios_pair_the_slices_of_a_round() {
        let options =
            CallOptions { peers: Some("here".into()), ..CallOptions::parse_flags(&[]).unwrap() };
        let calls = vec![
            TargetSeries {
                instructions: Some(222_000.0),
                ..sample_series("direct", &[100.0, 200.0, 100.0])
            },
            TargetSeries {
                instructions: Some(288_000.0),
                ..sample_series("bare proxy", &[80.0, 160.0, 10.0])
            },
        ];
        let report = CallReport {
            options: &options,
            machine: "two cores".to_owned(),
            counting: Err("no".to_owned()),
            calls,
            missing: vec!["ContextForge was not measured: it is not installed".to_owned()],
            lists: Vec::new(),
        };
        let text = report.to_string();
        assert!(text.contains("| 16 | bare proxy | 0.80 | 1.00 | 1.00 | 0.77 |"), "{text}");
        assert!(
            text.contains(
                "| 16 | direct | 100 (100 – 200) | 0.000 | 0.000 | 10.0 | 30.0 | 9 / 10 | 222 | 0 |"
            ),
            "{text}"
        );
        assert!(text.contains("\nContextForge was not measured: it is not installed.\n"), "{text}");
        assert!(text.contains("measure again on a quiet machine"), "half of it was used by others");
    }
}
