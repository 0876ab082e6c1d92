//! Report of the policy benchmark: docs/reference/benchmarks-policy.md.

use std::fmt;
use std::time::Duration;

use crate::report::median;
use crate::target_check::{self, NO_TARGET};

/// Figures of one run.
#[derive(Debug)]
pub(super) struct PolicyResults {
    pub(super) tools: usize,
    pub(super) classes: usize,
    /// Number of tools in the first caller's view.
    pub(super) visible_tools: usize,
    /// Times of view rebuilds, sorted.
    pub(super) rebuild_times: Vec<Duration>,
    /// Memory of all views together, in MiB.
    pub(super) views_mib: f64,
    pub(super) times: DecisionTimes,
    /// Calls a second by number of classes, slice by slice.
    pub(super) rates: Vec<(usize, Vec<f64>)>,
}

/// Nanoseconds of one operation each.
#[derive(Debug)]
pub(super) struct DecisionTimes {
    pub(super) admission: f64,
    pub(super) view_lookup: f64,
    /// Complete decision of a call by name.
    pub(super) named_call: f64,
    /// Both stages without cached results of the tool; the next row also without those of the
    /// caller.
    pub(super) six_layers: f64,
    pub(super) uncached_layers: f64,
    /// The second stage alone: of a tool without rules, with folders, with a condition.
    pub(super) second_stage: f64,
    pub(super) folder_rules: f64,
    pub(super) condition_rules: f64,
}

/// The complete report of one run.
pub(super) struct PolicyReport {
    pub(super) found: PolicyResults,
    pub(super) machine: String,
}

const REPORT_HEAD: &str = "\
# What a decision costs

Written by `cargo xtask bench policy --write`; not by hand. Within the program: no network and no disk is in \
these figures. The policy has six layers with ten rules to deny and three patterns to allow in each, folders for \
one kind of tools and a condition in CEL for another. No two classes see the same tools. Numbers of rights classes take turns, slice by slice, in one run; a ratio is the median over \
the rounds of two slices of the same round.
";

impl fmt::Display for PolicyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyResults { tools, classes, visible_tools, rebuild_times, views_mib, times, rates } =
            &self.found;
        let machine = &self.machine;
        writeln!(f, "{REPORT_HEAD}\nMachine: {machine}. {tools} tools, {classes} rights classes.")?;
        writeln!(f, "The first of them sees {visible_tools} tools.\n")?;
        writeln!(f, "| what | figure | to be |\n| --- | ---: | ---: |")?;
        let at = |part: usize| rebuild_times.get(rebuild_times.len() * part / 100).copied();
        let millis = |part| at(part).unwrap_or_default().as_secs_f64() * 1e3;
        let mut row =
            |what: &str, figure: String, goal: &str| writeln!(f, "| {what} | {figure} | {goal} |");
        let nanos = |time: f64| format!("{time:.0} ns");
        let rebuilds = |part| target_check::below_target(millis(part), 20.0, "ms");
        row("a view rebuilt, median", format!("{:.2} ms", millis(50)), &rebuilds(50))?;
        row("a view rebuilt, 99 of 100 within", format!("{:.2} ms", millis(99)), &rebuilds(99))?;
        row("memory of all these views, resident", format!("{views_mib:.1} MiB"), NO_TARGET)?;
        let admitted = target_check::below_target(times.admission, 100.0, "ns");
        row("admitted from the view at hand", nanos(times.admission), &admitted)?;
        row("the view looked up, and admitted from it", nanos(times.view_lookup), NO_TARGET)?;
        let decided = |time| target_check::below_target(time, 1000.0, "ns");
        let call = decided(times.named_call);
        row("a call decided: looked up, found, second stage", nanos(times.named_call), &call)?;
        let layers = decided(times.six_layers);
        row("… nothing remembered of the tool: six layers", nanos(times.six_layers), &layers)?;
        for (what, time) in [
            ("… nor of the caller: its six layers found anew", times.uncached_layers),
            ("the second stage alone, nothing left to ask", times.second_stage),
            ("… with folders that paths must lie beneath", times.folder_rules),
            ("… with a condition in CEL", times.condition_rules),
        ] {
            row(what, nanos(time), NO_TARGET)?;
        }
        let (of, first) =
            rates.first().map(|(of, rates)| (*of, rates.as_slice())).unwrap_or_default();
        for (classes, rates) in rates {
            let what = format!("calls a second, one at a time, {classes} rights classes");
            let ratios: Vec<f64> =
                rates.iter().zip(first).map(|(own, first)| own / first).collect();
            let figure = format!("{:.0}", median(rates));
            row(&what, figure, NO_TARGET)?;
            if *classes != of {
                let what = format!("… beside those of {of}");
                let ratio = median(&ratios);
                let goal = target_check::between_targets(ratio, 0.9, 1.1);
                row(&what, format!("{ratio:.2}"), &goal)?;
            }
        }
        Ok(())
    }
}
