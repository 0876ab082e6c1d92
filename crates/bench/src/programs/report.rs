//! The figures of programs in words: docs/reference/benchmarks-programs.md.

use std::fmt;
use std::time::Duration;

use crate::goal;

/// One thing that is done, many times.
pub(super) struct Row {
    what: &'static str,
    /// The program; the plain calls where there is none.
    pub(super) code: Option<String>,
    times: Vec<Duration>,
    server: Duration,
    whole: Duration,
}

impl Row {
    pub(super) fn new(what: &'static str, code: Option<String>) -> Self {
        let (server, whole) = (Duration::ZERO, Duration::ZERO);
        Self { what, code, times: Vec::new(), server, whole }
    }

    pub(super) fn add(&mut self, times: Vec<Duration>, server: Duration, whole: Duration) {
        self.times.extend(times);
        self.times.sort_unstable();
        self.server += server;
        self.whole += whole;
    }

    fn at(&self, share: usize) -> f64 {
        let place = (self.times.len() * share / 100).min(self.times.len().saturating_sub(1));
        self.times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }

    fn each(&self, all: Duration) -> f64 {
        all.as_secs_f64() * 1e3 / self.times.len().max(1) as f64
    }
}

/// All of it.
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    pub(super) start: Row,
    /// How many wait, and the server's MiB before and after.
    pub(super) waiting: (usize, f64, f64),
    pub(super) machine: String,
}

const HEAD: &str = "\
# What programs cost

Written by `cargo xtask bench programs --write`; not by hand. Requests go one after the other over one connection
that is kept. The rows take turns, so that all meet the same machine. CPU is that of the server and the processes
below it, and that of the whole machine, the client included.
";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\nMachine: {}.\n", self.machine)?;
        writeln!(f, "| what | median | 99 of 100 | CPU of the server | CPU in all |")?;
        writeln!(f, "| --- | ---: | ---: | ---: | ---: |")?;
        for row in &self.rows {
            let (median, most) = (row.at(50), row.at(99));
            let (server, whole) = (row.each(row.server), row.each(row.whole));
            writeln!(
                f,
                "| {} | {median:.2} ms | {most:.2} ms | {server:.2} ms | {whole:.2} ms |",
                row.what
            )?;
        }
        let (start, most) = (self.start.at(50), self.start.at(99));
        writeln!(
            f,
            "\n{}: {start:.2} ms, 99 of 100 within {most:.2} ms (to be: {}).",
            self.start.what,
            goal::below(start, 5.0, "ms")
        )?;
        let (count, before, after) = self.waiting;
        writeln!(
            f,
            "\n{count} programs that wait for an approval: the server has {after:.0} MiB, {:.0} more than before (to be: {}).",
            after - before,
            goal::below(after - before, 50.0, "MiB")
        )
    }
}
