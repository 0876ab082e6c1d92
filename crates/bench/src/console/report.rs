//! Report of the console benchmark: docs/reference/benchmarks-console.md.

use std::fmt;

use super::first_paint::{LOADS, PaintTimes};
use super::live_tail::{RATE, TailComparison, TailSide};
use super::{PENDING_CALLS, PageTimes, RECORDS, REQUESTS, SMALL_SOURCES, TOOLS};

/// The complete report of one run.
pub(super) struct ConsoleReport {
    pub(super) pages: Vec<PageTimes>,
    /// Times to the first contentful paint, where a browser is installed.
    pub(super) paints: Option<PaintTimes>,
    pub(super) tail: TailComparison,
    /// Resident memory of the server at the end, and the most, in MiB.
    pub(super) memory: (f64, f64),
    pub(super) machine: String,
}

/// Largest p99 of a page, in milliseconds.
const PAGE_GOAL_MS: f64 = 100.0;
/// Longest time to the first contentful paint, in milliseconds.
const PAINT_GOAL_MS: f64 = 200.0;
/// Largest page, in bytes.
const SIZE_GOAL: usize = 100_000;
/// Largest ratio of CPU beside a live tail.
const TAIL_GOAL: f64 = 1.02;

fn judge(is_met: bool) -> &'static str {
    if is_met { "" } else { ", **missed**" }
}

impl ConsoleReport {
    fn write_pages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| page | bytes, to be < {SIZE_GOAL} | p50 | p99, to be < {PAGE_GOAL_MS} ms |"
        )?;
        writeln!(f, "| --- | ---: | ---: | ---: |")?;
        for page in &self.pages {
            let ms = |share| page.latencies.quantile(share).as_secs_f64() * 1e3;
            writeln!(
                f,
                "| `{}` | {}{} | {:.2} ms | {:.2} ms{} |",
                page.path,
                page.bytes,
                judge(page.bytes < SIZE_GOAL),
                ms(0.5),
                ms(0.99),
                judge(ms(0.99) < PAGE_GOAL_MS)
            )?;
        }
        Ok(())
    }

    fn write_paints(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(paints) = &self.paints else {
            return writeln!(f, "Not measured: `TOOLKEEP_REAL` names no folder with a browser.");
        };
        writeln!(
            f,
            "In headless Chromium on the same machine, {LOADS} loads of each page, the style sheet and the \
             script cached.\n\n| page | median | longest, to be < {PAINT_GOAL_MS} ms |"
        )?;
        writeln!(f, "| --- | ---: | ---: |")?;
        for (path, times) in paints {
            let median = times.get(times.len() / 2).copied().unwrap_or_default();
            let longest = times.last().copied().unwrap_or_default();
            let goal = judge(longest < PAINT_GOAL_MS);
            writeln!(f, "| `{path}` | {median:.0} ms | {longest:.0} ms{goal} |")?;
        }
        Ok(())
    }

    fn write_tail(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TailComparison { without, with, cpu_ratio } = &self.tail;
        writeln!(f, "| | calls | server's CPU for a call | p50 | p99 |")?;
        writeln!(f, "| --- | ---: | ---: | ---: | ---: |")?;
        for (name, side) in [("nobody watches", without), ("one live tail", with)] {
            let us = |share| side.latencies.quantile(share).as_secs_f64() * 1e6;
            let TailSide { calls, .. } = side;
            let cpu = side.cpu_per_call();
            writeln!(
                f,
                "| {name} | {calls} | {cpu:.1} µs | {:.0} µs | {:.0} µs |",
                us(0.5),
                us(0.99)
            )?;
        }
        writeln!(
            f,
            "\nThe median ratio of CPU of neighbouring turns is {cpu_ratio:.3} (to be at most \
             {TAIL_GOAL}{}). In a turn of 4 s the stream sent {} bytes.",
            judge(*cpu_ratio <= TAIL_GOAL),
            with.event_bytes
        )
    }
}

impl fmt::Display for ConsoleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# What the web console costs\n\n\
             Written by `cargo xtask bench console --write`; not by hand. A server with {TOOLS} tools in \
             {} sources, {PENDING_CALLS} pending calls and {RECORDS} records. Each page is requested \
             {REQUESTS} times on one connection; the time is from the request to the last byte.\n\n\
             Machine: {}.\n\n## Pages\n",
            SMALL_SOURCES + 2,
            self.machine
        )?;
        self.write_pages(f)?;
        writeln!(f, "\n## First contentful paint\n")?;
        self.write_paints(f)?;
        writeln!(
            f,
            "\n## Calls beside a live tail\n\n{RATE} calls a second by 16 callers, in turns of 4 s with and \
             without a reader of `/ui/events/calls`. A look takes at most 50 records, once a second, \
             whatever was written.\n"
        )?;
        self.write_tail(f)?;
        let (now, most) = self.memory;
        writeln!(f, "\nMemory of the server at the end: {now:.0} MiB, at most {most:.0} MiB.")
    }
}
