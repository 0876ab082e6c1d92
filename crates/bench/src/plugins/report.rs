//! The figures of plugins in words: docs/reference/benchmarks-plugins.md.

use std::fmt;
use std::time::Duration;

use crate::goal;

/// One line.
pub(super) struct Row {
    what: String,
    times: Vec<Duration>,
    function: Option<Duration>,
    goal: String,
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

fn at(times: &[Duration], share: usize) -> Duration {
    let last = times.len().saturating_sub(1);
    times.get((times.len() * share / 100).min(last)).copied().unwrap_or_default()
}

fn sorted(mut times: Vec<Duration>) -> Vec<Duration> {
    times.sort_unstable();
    times
}

impl Row {
    pub(super) fn new(
        what: impl Into<String>,
        times: Vec<Duration>,
        limit: Option<Duration>,
    ) -> Self {
        let times = sorted(times);
        let judged = |limit| goal::within(at(&times, 50), limit);
        let goal = limit.map_or_else(|| goal::OPEN.to_owned(), judged);
        Self { what: what.into(), times, function: None, goal }
    }

    /// With what the function took itself, which is not in the times.
    pub(super) fn of(self, function: Vec<Duration>) -> Self {
        Self { function: Some(at(&sorted(function), 50)), ..self }
    }
}

/// All of them.
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    pub(super) machine: String,
}

const HEAD: &str = "\
# What calls of plugins take

Written by `cargo xtask bench plugins --write`; not by hand. A call is the whole request at the REST door, on a
connection of its own, from the first byte to the last of the answer, with its checks and its record; the code
runs in a whole cage. Of warm calls the time that the function took by its own clock is taken off and stands
beside. A process is started when its plugin is loaded, so the first call finds it there.
";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\nMachine: {}.\n", self.machine)?;
        writeln!(
            f,
            "| what | median | 99 of 100 | the function itself | to be |\n| --- | ---: | ---: | ---: | ---: |"
        )?;
        for Row { what, times, function, goal } in &self.rows {
            let function = function.map_or_else(|| "–".to_owned(), ms);
            let (median, most) = (ms(at(times, 50)), ms(at(times, 99)));
            writeln!(f, "| {what} | {median} | {most} | {function} | {goal} |")?;
        }
        Ok(())
    }
}
