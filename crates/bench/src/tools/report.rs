//! The figures of tools in words: docs/reference/benchmarks-tools.md.

use std::fmt;
use std::time::Duration;

use crate::goal;

/// One line.
pub(super) struct Row {
    what: String,
    ours: String,
    python: String,
    ratio: String,
    goal: String,
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

impl Row {
    fn new(what: impl Into<String>, ours: String, goal: String) -> Self {
        let none = || "–".to_owned();
        Self { what: what.into(), ours, python: none(), ratio: none(), goal }
    }

    pub(super) fn beside(what: String, ours: Duration, theirs: Duration, goal: f64) -> Self {
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64().max(1e-9);
        Self {
            python: ms(theirs),
            ratio: format!("{ratio:.1} ×"),
            ..Self::new(what, ms(ours), goal::at_least(ratio, goal, " ×"))
        }
    }

    pub(super) fn alone(what: &str, ours: Duration, limit: Duration) -> Self {
        Self::new(what, ms(ours), goal::within(ours, limit))
    }

    pub(super) fn memory(tools: usize, idle: f64) -> Self {
        let what = format!("memory with {tools} tools offered, at rest before the first call");
        Self::new(what, format!("{idle:.0} MiB"), goal::below(idle, 40.0, "MiB"))
    }

    pub(super) fn after(now: f64, most: f64) -> Self {
        Self::new(
            "memory after all this, and the most it was",
            format!("{now:.0}, {most:.0} MiB"),
            goal::OPEN.to_owned(),
        )
    }
}

/// All of them.
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    pub(super) machine: String,
}

const HEAD: &str = "\
# What calls of built-in tools take

Written by `cargo xtask bench tools --write`; not by hand. A call through Toolkeep is the whole request at the
REST door, from the first byte to the last of the answer, with its checks and its record. Python does the same
in turn with it, with its own json, csv and sqlite3; reading the arguments and writing the answer count, its
start does not. Both answers must be the same bytes. Medians.
";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\nMachine: {}.\n", self.machine)?;
        writeln!(
            f,
            "| what | Toolkeep | Python | ratio | to be |\n| --- | ---: | ---: | ---: | ---: |"
        )?;
        for Row { what, ours, python, ratio, goal } in &self.rows {
            writeln!(f, "| {what} | {ours} | {python} | {ratio} | {goal} |")?;
        }
        Ok(())
    }
}
