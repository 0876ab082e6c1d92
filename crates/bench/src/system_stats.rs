//! Kernel statistics of the machine and of the measured processes.

use std::fs;
use std::time::Duration;

/// Returns the bytes that this process has read from files so far.
pub(crate) fn read_bytes() -> u64 {
    let stat = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let read = stat.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or_default()
}

/// Clock ticks per second in `/proc` on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Describes the machine in one line, without its name, and how the programs were built if known.
pub(crate) fn describe_machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = read_field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown CPU".to_owned());
    let memory =
        read_field("/proc/meminfo", "MemTotal").and_then(|text| parse_kib(&text)).unwrap_or(0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel_version(&kernel);
    let gib = memory as f64 / 1024.0 / 1024.0;
    format!("{cores} cores of {cpu}, {gib:.0} GiB, Linux {kernel}{}", build_note())
}

/// Returns how the measured programs were built, if the task sets it.
pub(crate) fn build_note() -> String {
    let by = std::env::var("TOOLKEEP_BUILT_BY");
    match by.as_deref() {
        Ok("cargo xtask release") => {
            "; Toolkeep and the programs beside it of `cargo xtask release`, \
            all compiled with one profile of these calls"
                .to_owned()
        }
        Ok(by) => format!("; Toolkeep and the programs beside it of `{by}`, without a profile"),
        Err(_) => String::new(),
    }
}

/// Returns major and minor version; the rest identifies the kernel's vendor.
fn kernel_version(release: &str) -> String {
    let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
    let parts: Vec<_> = release.trim().splitn(3, '.').take(2).map(digits).collect();
    parts.join(".")
}

fn read_field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn parse_kib(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Returns the CPU time of process `pid`; zero if it has ended.
pub(crate) fn process_cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    Duration::from_millis(process_ticks(&stat).unwrap_or(0) * 1000 / TICKS_PER_SECOND)
}

/// Parses user and system time from `/proc/PID/stat`; the name in parentheses may contain spaces.
fn process_ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// Returns the resident and peak memory of process `pid` in MiB.
pub(crate) fn process_memory(pid: u32) -> (f64, f64) {
    let path = format!("/proc/{pid}/status");
    let mib = |name| {
        let kib = read_field(&path, name).and_then(|text| parse_kib(&text)).unwrap_or(0);
        kib as f64 / 1024.0
    };
    (mib("VmRSS"), mib("VmHWM"))
}

/// Returns the CPU time of all processes and the kernel since the machine started.
pub(crate) fn system_busy() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    Duration::from_millis(busy_ticks(&stat).unwrap_or(0) * 1000 / TICKS_PER_SECOND)
}

/// Sums all times except idle and I/O wait in the first line of `/proc/stat`.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let idle = fields.get(3)? + fields.get(4)?;
    // The guest times, the last two fields, are already part of the first two.
    Some(fields.iter().take(8).sum::<u64>() - idle)
}

#[cfg(test)]
mod tests {
    use super::{
        busy_ticks, describe_machine, kernel_version, process_cpu, process_memory, process_ticks,
    };

    #[test]
    fn times_are_read_where_they_stand() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 3 0 5 6 7";
        assert_eq!(process_ticks(stat), Some(42));
        assert_eq!(process_ticks("7 (a) S 1"), None);
        assert_eq!(busy_ticks("cpu  10 1 5 1000 9 2 3 4 99 0\ncpu0 1"), Some(25));
    }

    #[test]
    fn of_the_kernel_only_major_and_minor_are_told() {
        for (release, shown) in [
            ("6.18.3-200.example.x86_64\n", "6.18"),
            ("6.18-rc2", "6.18"),
            ("5.10.0+host-name", "5.10"),
            ("7", "7"),
            ("", ""),
        ] {
            assert_eq!(kernel_version(release), shown, "{release}");
        }
        let told = describe_machine();
        let kernel = told.rsplit_once("Linux ").unwrap().1;
        assert!(kernel.chars().all(|c| c.is_ascii_digit() || c == '.'), "{told}");
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        let own = std::process::id();
        let mut sum = 0_u64;
        while process_cpu(own).is_zero() {
            sum = (0..1_000_000_u64).fold(sum, |sum, n| sum.wrapping_mul(31).wrapping_add(n));
        }
        let (now, most) = process_memory(own);
        assert!(now > 0.0 && most >= now, "{now} {most} {sum}");
        assert_eq!(process_cpu(u32::MAX), std::time::Duration::ZERO);
        assert!(describe_machine().contains("cores of"), "{}", describe_machine());
    }
}
