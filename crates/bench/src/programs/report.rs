//! Report of the program benchmark: docs/reference/benchmarks-programs.md.

use std::fmt;
use std::time::Duration;

use crate::target_check;

/// Measurements of one repeated operation.
pub(super) struct ProgramRow {
    label: &'static str,
    /// The program's code; `None` for plain calls.
    pub(super) code: Option<String>,
    times: Vec<Duration>,
    server_cpu: Duration,
    total_cpu: Duration,
}

impl ProgramRow {
    pub(super) fn new(label: &'static str, code: Option<String>) -> Self {
        let (server, whole) = (Duration::ZERO, Duration::ZERO);
        Self { label, code, times: Vec::new(), server_cpu: server, total_cpu: whole }
    }

    pub(super) fn add_times(
        &mut self,
        times: Vec<Duration>,
        server_time: Duration,
        total_time: Duration,
    ) {
        self.times.extend(times);
        self.times.sort_unstable();
        self.server_cpu += server_time;
        self.total_cpu += total_time;
    }

    fn percentile_ms(&self, share: usize) -> f64 {
        let place = (self.times.len() * share / 100).min(self.times.len().saturating_sub(1));
        self.times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }

    fn ms_per_run(&self, all: Duration) -> f64 {
        all.as_secs_f64() * 1e3 / self.times.len().max(1) as f64
    }
}

/// The complete report of one run.
pub(super) struct ProgramReport {
    pub(super) rows: Vec<ProgramRow>,
    pub(super) start: ProgramRow,
    /// Number of waiting programs and the server's memory in MiB before and after.
    pub(super) waiting: (usize, f64, f64),
    pub(super) machine: String,
}

const REPORT_HEAD: &str = "\
# What programs cost

Written by `cargo xtask bench programs --write`; not by hand. Requests go one after the other over one connection
that is kept. The rows take turns, so that all meet the same machine. CPU is that of the server and the processes
below it, and that of the whole machine, the client included.
";

impl fmt::Display for ProgramReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{REPORT_HEAD}\nMachine: {}.\n", self.machine)?;
        writeln!(f, "| what | median | 99 of 100 | CPU of the server | CPU in all |")?;
        writeln!(f, "| --- | ---: | ---: | ---: | ---: |")?;
        for row in &self.rows {
            let (median, most) = (row.percentile_ms(50), row.percentile_ms(99));
            let (server, whole) = (row.ms_per_run(row.server_cpu), row.ms_per_run(row.total_cpu));
            writeln!(
                f,
                "| {} | {median:.2} ms | {most:.2} ms | {server:.2} ms | {whole:.2} ms |",
                row.label
            )?;
        }
        let (start, most) = (self.start.percentile_ms(50), self.start.percentile_ms(99));
        writeln!(
            f,
            "\n{}: {start:.2} ms, 99 of 100 within {most:.2} ms (to be: {}).",
            self.start.label,
            target_check::below_target(start, 5.0, "ms")
        )?;
        let (count, before, after) = self.waiting;
        writeln!(
            f,
            "\n{count} programs that wait for an approval: the server has {after:.0} MiB, {:.0} more than before (to be: {}).",
            after - before,
            target_check::below_target(after - before, 50.0, "MiB")
        )
    }
}
