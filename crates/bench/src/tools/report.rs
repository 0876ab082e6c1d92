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

    pub(super) fn comparison_row(
        label: String,
        toolkeep_time: Duration,
        python_time: Duration,
        target_ratio: f64,
    ) -> Self {
        let ratio = python_time.as_secs_f64() / toolkeep_time.as_secs_f64().max(1e-9);
        Self {
            python: format_ms(python_time),
            ratio: format!("{ratio:.1} ×"),
            ..Self::new(
                label,
                format_ms(toolkeep_time),
                target_check::at_least_target(ratio, target_ratio, " ×"),
            )
        }
    }

    pub(super) fn limit_row(label: &str, toolkeep_time: Duration, limit: Duration) -> Self {
        Self::new(
            label,
            format_ms(toolkeep_time),
            target_check::within_target(toolkeep_time, limit),
        )
    }

    pub(super) fn idle_memory(tools: usize, idle_mib: f64) -> Self {
        let what = format!("memory with {tools} tools offered, at rest before the first call");
        Self::new(
            what,
            format!("{idle_mib:.0} MiB"),
            target_check::below_target(idle_mib, 40.0, "MiB"),
        )
    }

    pub(super) fn final_memory(current_mib: f64, peak_mib: f64) -> Self {
        Self::new(
            "memory after all this, and the most it was",
            format!("{current_mib:.0}, {peak_mib:.0} MiB"),
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
