//! `bench emulated`: instructions of the whole system for one call, kernel and callers included.
//!
//! Run within a machine that `cargo xtask bench emulated` starts, whose clock goes on by one nanosecond for
//! each instruction that its processors carry out, and by nothing else while one of them is busy: there
//! the time between two calls is what a call took. Nothing depends on the machine outside.

use std::fmt::{self, Write as _};

use crate::call::{self, DIRECT, Folder};
use crate::machine;
use crate::options::Options;
use crate::report::median;
use crate::target::Series;

/// Around the report: what else is on the console is the kernel's.
const MARKS: [&str; 2] = ["<!-- begin -->", "<!-- end -->"];

const HEAD: &str = "\
# What a call costs, in instructions

Written by `cargo xtask bench emulated`; not by hand. Counted are the instructions of the whole system for one call: \
of callers, of what stands between, of the server behind and of the kernel. Where the processor counts, \
`perf stat -a` says the same; on many machines that belong to others it does not, so an emulated one counts \
here (QEMU, `-icount shift=0`): its clock is its number of instructions, so that seconds are billions of them. There is \
no disk in it, so that the row with effects unknown lacks what the kernel does for a sync. What is compared is \
told in [What a call costs](benchmarks.md).
";

/// Counts and prints.
pub(crate) async fn run(flags: &[&str]) -> Result<(), String> {
    let folder = Folder::make()?;
    let options = Options::parse(flags)?;
    let (calls, _) = call::calls(&options, &folder.0, false).await?;
    let failures: u64 = calls.iter().map(Series::failures).sum();
    if failures > 0 {
        return Err(format!("{failures} answers were not what was asked for"));
    }
    let [begin, end] = MARKS;
    println!("{begin}\n{}{end}", text(&calls).map_err(|error| error.to_string())?);
    Ok(())
}

/// Thousands of instructions for a call, in each slice.
fn counted(series: &Series) -> Vec<f64> {
    series.rates().iter().map(|rate| 1e6 / rate.max(1e-9)).collect()
}

fn text(calls: &[Series]) -> Result<String, fmt::Error> {
    let mut text = HEAD.to_owned();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    writeln!(text, "\nThe emulated machine: {cores} processors{}.\n", machine::built())?;
    writeln!(text, "| callers | target | k instructions/call (least – most) | direct / target |")?;
    writeln!(text, "| ---: | --- | ---: | ---: |")?;
    for series in calls {
        let beside = |other: &&Series| other.target == DIRECT && other.callers == series.callers;
        let own = counted(series);
        let direct = calls.iter().find(beside).map(counted).unwrap_or_default();
        let least = own.iter().copied().fold(f64::INFINITY, f64::min);
        let most = own.iter().copied().fold(0.0, f64::max);
        let (own, direct) = (median(&own), median(&direct));
        writeln!(
            text,
            "| {} | {} | {own:.0} ({least:.0} – {most:.0}) | {:.2} |",
            series.callers,
            series.target,
            direct / own
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::target::tests::series;

    #[test]
    fn a_nanosecond_is_an_instruction() {
        let text = text(&[
            series("direct", &[4000.0, 5000.0, 2000.0]),
            series("bare proxy", &[3200.0, 3100.0, 3300.0]),
        ]);
        let text = text.unwrap();
        assert!(text.contains("| 16 | direct | 250 (200 – 500) | 1.00 |"), "{text}");
        assert!(text.contains("| 16 | bare proxy | 312 (303 – 323) | 0.80 |"), "{text}");
    }
}
