//! The figures of decisions in words: docs/reference/benchmarks-policy.md.

use std::fmt;
use std::time::Duration;

/// All that one run found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) tools: usize,
    pub(super) classes: usize,
    /// Tools of the first caller's view.
    pub(super) seen: usize,
    /// Sorted.
    pub(super) rebuilt: Vec<Duration>,
    /// Nanoseconds, as the three after it.
    pub(super) admitted: f64,
    pub(super) looked: f64,
    pub(super) plain: f64,
    pub(super) ruled: f64,
    /// Calls a second by number of classes, slice by slice.
    pub(super) rates: Vec<(usize, Vec<f64>)>,
}

/// What is told of them.
pub(super) struct Report {
    pub(super) found: Found,
    pub(super) machine: String,
}

const HEAD: &str = "\
# What a decision costs

Written by `cargo xtask bench policy --write`; not by hand. Within the program: no network and no disk is in \
these figures. The policy has six layers with ten rules to deny and three patterns to allow in each, and one \
condition in CEL. Numbers of rights classes take turns, slice by slice, in one run; a ratio is the median over \
the rounds of two slices of the same round.
";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { tools, classes, seen, rebuilt, rates, .. } = &self.found;
        writeln!(f, "{HEAD}\nMachine: {}. {tools} tools, {classes} rights classes.", self.machine)?;
        writeln!(f, "The first of them sees {seen} tools.\n")?;
        writeln!(f, "| what | figure | to be |\n| --- | ---: | ---: |")?;
        let at = |part: usize| rebuilt.get(rebuilt.len() * part / 100).copied();
        let millis = |part| at(part).unwrap_or_default().as_secs_f64() * 1e3;
        let mut row =
            |what: &str, figure: String, goal: &str| writeln!(f, "| {what} | {figure} | {goal} |");
        let nanos = |time: f64| format!("{time:.0} ns");
        row("a view rebuilt, median", format!("{:.2} ms", millis(50)), "< 20 ms")?;
        row("a view rebuilt, 99 of 100 within", format!("{:.2} ms", millis(99)), "< 20 ms")?;
        row("admitted from the view at hand", nanos(self.found.admitted), "< 100 ns")?;
        row("the view looked up, and admitted from it", nanos(self.found.looked), "–")?;
        row("decided", nanos(self.found.plain), "< 1000 ns")?;
        row("decided with a condition in CEL", nanos(self.found.ruled), "–")?;
        let (of, first) =
            rates.first().map(|(of, rates)| (*of, rates.as_slice())).unwrap_or_default();
        for (classes, rates) in rates {
            let what = format!("calls a second, one at a time, {classes} rights classes");
            let ratios = rates.iter().zip(first).map(|(own, first)| own / first).collect();
            let figure = format!("{:.0}", median(rates.clone()));
            row(&what, figure, "–")?;
            if *classes != of {
                let what = format!("… beside those of {of}");
                row(&what, format!("{:.2}", median(ratios)), "0.90 – 1.10")?;
            }
        }
        Ok(())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
