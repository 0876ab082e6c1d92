//! `bench emulated`: instructions of the whole system per call, including kernel and callers.
//!
//! It runs in an emulated machine that `cargo xtask bench emulated` starts. Its clock advances by
//! one nanosecond per executed instruction while a processor is busy, so the time between two calls
//! is the number of instructions. The host machine does not influence the result.

use std::fmt::{self, Write as _};

use crate::call::{self, DIRECT_NAME, TempFolder};
use crate::options::CallOptions;
use crate::report::median;
use crate::system_stats;
use crate::target::TargetSeries;

/// Marks around the report; all other console output is the kernel's.
const REPORT_MARKS: [&str; 2] = ["<!-- begin -->", "<!-- end -->"];

const HEAD: &str = "\
# What a call costs, in instructions

Written by `cargo xtask bench emulated`; not by hand. Counted are the instructions of the whole system for one call: \
of callers, of what stands between, of the server behind and of the kernel. Where the processor counts, \
`perf stat -a` says the same; on many machines that belong to others it does not, so an emulated one counts \
here (QEMU, `-icount shift=0`): its clock is its number of instructions, so that seconds are billions of them. There is \
no disk in it, so that the row with effects unknown lacks what the kernel does for a sync. What is compared is \
told in [What a call costs](benchmarks.md).
";

/// Counts the instructions and prints the result.
pub(crate) async fn run_emulated_bench(flags: &[&str]) -> Result<(), String> {
    let folder = TempFolder::create_folder()?;
    let options = CallOptions::parse_flags(flags)?;
    let (calls, _) = call::measure_calls(&options, &folder.0, false).await?;
    let failures: u64 = calls.iter().map(TargetSeries::total_failures).sum();
    if failures > 0 {
        return Err(format!("{failures} answers were not what was asked for"));
    }
    let [begin, end] = REPORT_MARKS;
    println!("{begin}\n{}{end}", format_report(&calls).map_err(|error| error.to_string())?);
    Ok(())
}

/// Returns the thousands of instructions per call of each slice.
fn kilo_instructions(series: &TargetSeries) -> Vec<f64> {
    series.rates().iter().map(|rate| 1e6 / rate.max(1e-9)).collect()
}

fn format_report(calls: &[TargetSeries]) -> Result<String, fmt::Error> {
    let mut text = HEAD.to_owned();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    writeln!(text, "\nThe emulated machine: {cores} processors{}.\n", system_stats::build_note())?;
    writeln!(text, "| callers | target | k instructions/call (least – most) | direct / target |")?;
    writeln!(text, "| ---: | --- | ---: | ---: |")?;
    for series in calls {
        let beside =
            |other: &&TargetSeries| other.target == DIRECT_NAME && other.callers == series.callers;
        let own = kilo_instructions(series);
        let direct = calls.iter().find(beside).map(kilo_instructions).unwrap_or_default();
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
    use super::format_report;
    use crate::target::tests::sample_series;

    #[test]
    fn a_nanosecond_is_an_instruction() {
        let text = format_report(&[
            sample_series("direct", &[4000.0, 5000.0, 2000.0]),
            sample_series("bare proxy", &[3200.0, 3100.0, 3300.0]),
        ]);
        let text = text.unwrap();
        assert!(text.contains("| 16 | direct | 250 (200 – 500) | 1.00 |"), "{text}");
        assert!(text.contains("| 16 | bare proxy | 312 (303 – 323) | 0.80 |"), "{text}");
    }
}
