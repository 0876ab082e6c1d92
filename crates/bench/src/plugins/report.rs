//! Report of the plugin benchmark: docs/reference/benchmarks-plugins.md.

use std::fmt;
use std::time::Duration;

use crate::target_check;

/// One line of the report.
pub(super) struct PluginRow {
    label: String,
    times: Vec<Duration>,
    function: Option<Duration>,
    goal: String,
}

fn format_ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

fn percentile(times: &[Duration], share: usize) -> Duration {
    let last = times.len().saturating_sub(1);
    times.get((times.len() * share / 100).min(last)).copied().unwrap_or_default()
}

fn sort_times(mut times: Vec<Duration>) -> Vec<Duration> {
    times.sort_unstable();
    times
}

impl PluginRow {
    pub(super) fn new(
        label: impl Into<String>,
        times: Vec<Duration>,
        limit: Option<Duration>,
    ) -> Self {
        let times = sort_times(times);
        let judged = |limit| target_check::within_target(percentile(&times, 50), limit);
        let goal = limit.map_or_else(|| target_check::NO_TARGET.to_owned(), judged);
        Self { label: label.into(), times, function: None, goal }
    }

    /// Adds the time of the function itself, which the other times exclude.
    pub(super) fn with_function(self, function: Vec<Duration>) -> Self {
        Self { function: Some(percentile(&sort_times(function), 50)), ..self }
    }
}

/// The complete report of one run.
pub(super) struct PluginReport {
    pub(super) rows: Vec<PluginRow>,
    pub(super) machine: String,
}

const REPORT_HEAD: &str = "\
# What calls of plugins take

Written by `cargo xtask bench plugins --write`; not by hand. A call is the whole request at the REST door, on a
connection of its own, from the first byte to the last of the answer, with its checks and its record; the code
runs in a `whole` sandbox. Of warm calls the time that the function took by its own clock is taken off and stands
beside. A process is started when its plugin is loaded, so the first call finds it there.
";

impl fmt::Display for PluginReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{REPORT_HEAD}\nMachine: {}.\n", self.machine)?;
        writeln!(
            f,
            "| what | median | 99 of 100 | the function itself | to be |\n| --- | ---: | ---: | ---: | ---: |"
        )?;
        for PluginRow { label: what, times, function, goal } in &self.rows {
            let function = function.map_or_else(|| "–".to_owned(), format_ms);
            let (median, most) =
                (format_ms(percentile(times, 50)), format_ms(percentile(times, 99)));
            writeln!(f, "| {what} | {median} | {most} | {function} | {goal} |")?;
        }
        Ok(())
    }
}
