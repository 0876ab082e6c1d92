//! The figures of decisions in words: docs/reference/benchmarks-policy.md.

use std::fmt;
use std::time::Duration;

use crate::goal;
use crate::report::median;

/// All that one run found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) tools: usize,
    pub(super) classes: usize,
    /// Tools of the first caller's view.
    pub(super) seen: usize,
    /// Sorted.
    pub(super) rebuilt: Vec<Duration>,
    /// MiB of memory that all views together took.
    pub(super) views: f64,
    pub(super) times: Times,
    /// Calls a second by number of classes, slice by slice.
    pub(super) rates: Vec<(usize, Vec<f64>)>,
}

/// Nanoseconds of one.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) admitted: f64,
    pub(super) looked: f64,
    /// All that is asked of a call by name.
    pub(super) call: f64,
    /// Both stages with nothing remembered of the tool, and also nothing of the caller's layers.
    pub(super) layers: f64,
    pub(super) anew: f64,
    /// The second stage alone: of a tool without rules, with folders, with a condition.
    pub(super) stage: f64,
    pub(super) folders: f64,
    pub(super) ruled: f64,
}

/// What is told of them.
pub(super) struct Report {
    pub(super) found: Found,
    pub(super) machine: String,
}

const HEAD: &str = "\
# What a decision costs

Written by `cargo xtask bench policy --write`; not by hand. Within the program: no network and no disk is in \
these figures. The policy has six layers with ten rules to deny and three patterns to allow in each, folders for \
one kind of tools and a condition in CEL for another. No two classes see the same tools. Numbers of rights classes take turns, slice by slice, in one run; a ratio is the median over \
the rounds of two slices of the same round.
";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { tools, classes, seen, rebuilt, views, times, rates } = &self.found;
        writeln!(f, "{HEAD}\nMachine: {}. {tools} tools, {classes} rights classes.", self.machine)?;
        writeln!(f, "The first of them sees {seen} tools.\n")?;
        writeln!(f, "| what | figure | to be |\n| --- | ---: | ---: |")?;
        let at = |part: usize| rebuilt.get(rebuilt.len() * part / 100).copied();
        let millis = |part| at(part).unwrap_or_default().as_secs_f64() * 1e3;
        let mut row =
            |what: &str, figure: String, goal: &str| writeln!(f, "| {what} | {figure} | {goal} |");
        let nanos = |time: f64| format!("{time:.0} ns");
        let rebuilds = |part| goal::below(millis(part), 20.0, "ms");
        row("a view rebuilt, median", format!("{:.2} ms", millis(50)), &rebuilds(50))?;
        row("a view rebuilt, 99 of 100 within", format!("{:.2} ms", millis(99)), &rebuilds(99))?;
        row("memory of all these views, resident", format!("{views:.1} MiB"), goal::OPEN)?;
        let admitted = goal::below(times.admitted, 100.0, "ns");
        row("admitted from the view at hand", nanos(times.admitted), &admitted)?;
        row("the view looked up, and admitted from it", nanos(times.looked), goal::OPEN)?;
        let decided = |time| goal::below(time, 1000.0, "ns");
        let call = decided(times.call);
        row("a call decided: looked up, found, second stage", nanos(times.call), &call)?;
        let layers = decided(times.layers);
        row("… nothing remembered of the tool: six layers", nanos(times.layers), &layers)?;
        row("… nor of the caller: its six layers found anew", nanos(times.anew), goal::OPEN)?;
        row("the second stage alone, nothing left to ask", nanos(times.stage), goal::OPEN)?;
        row("… with folders that paths must lie beneath", nanos(times.folders), goal::OPEN)?;
        row("… with a condition in CEL", nanos(times.ruled), goal::OPEN)?;
        let (of, first) =
            rates.first().map(|(of, rates)| (*of, rates.as_slice())).unwrap_or_default();
        for (classes, rates) in rates {
            let what = format!("calls a second, one at a time, {classes} rights classes");
            let ratios: Vec<f64> =
                rates.iter().zip(first).map(|(own, first)| own / first).collect();
            let figure = format!("{:.0}", median(rates));
            row(&what, figure, goal::OPEN)?;
            if *classes != of {
                let what = format!("… beside those of {of}");
                let beside = median(&ratios);
                row(&what, format!("{beside:.2}"), &goal::between(beside, 0.9, 1.1))?;
            }
        }
        Ok(())
    }
}
