//! Report of the tool benchmark: docs/reference/benchmarks-tools.md.

use std::fmt;
use std::time::Duration;

use crate::target_check;

/// One line of the report.
pub(super) struct ToolRow {
    label: String,
    ours: String,
    python: String,
    ratio: String,
    goal: String,
}

fn format_ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

impl ToolRow {
    fn new(what: impl Into<String>, ours: String, goal: String) -> Self {
        let none = || "–".to_owned();
        Self { label: what.into(), ours, python: none(), ratio: none(), goal }
    }

    pub(super) fn compared(what: String, ours: Duration, theirs: Duration, goal: f64) -> Self {
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64().max(1e-9);
        Self {
            python: format_ms(theirs),
            ratio: format!("{ratio:.1} ×"),
            ..Self::new(what, format_ms(ours), target_check::at_least_target(ratio, goal, " ×"))
        }
    }

    pub(super) fn single(what: &str, ours: Duration, limit: Duration) -> Self {
        Self::new(what, format_ms(ours), target_check::within_target(ours, limit))
    }

    pub(super) fn idle_memory(tools: usize, idle: f64) -> Self {
        let what = format!("memory with {tools} tools offered, at rest before the first call");
        Self::new(what, format!("{idle:.0} MiB"), target_check::below_target(idle, 40.0, "MiB"))
    }

    pub(super) fn final_memory(now: f64, most: f64) -> Self {
        Self::new(
            "memory after all this, and the most it was",
            format!("{now:.0}, {most:.0} MiB"),
            target_check::NO_TARGET.to_owned(),
        )
    }
}

/// The complete report of one run.
pub(super) struct ToolReport {
    pub(super) rows: Vec<ToolRow>,
    pub(super) machine: String,
}

const REPORT_HEAD: &str = "\
# What calls of built-in tools take

Written by `cargo xtask bench tools --write`; not by hand. A call through Toolkeep is the whole request at the
REST door, from the first byte to the last of the answer, with its checks and its record. Python does the same
in turn with it, with its own json, csv and sqlite3; reading the arguments and writing the answer count, its
start does not. Both answers must be the same bytes. Medians.
";

impl fmt::Display for ToolReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{REPORT_HEAD}\nMachine: {}.\n", self.machine)?;
        writeln!(
            f,
            "| what | Toolkeep | Python | ratio | to be |\n| --- | ---: | ---: | ---: | ---: |"
        )?;
        for ToolRow { label: what, ours, python, ratio, goal } in &self.rows {
            writeln!(f, "| {what} | {ours} | {python} | {ratio} | {goal} |")?;
        }
        Ok(())
    }
}
