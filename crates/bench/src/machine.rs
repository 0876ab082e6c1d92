//! What the kernel says: of the machine, and of the processes that are measured.

use std::fs;
use std::time::Duration;

/// The kernel's clock ticks in a second, as `/proc` counts them on Linux.
const TICKS: u64 = 100;

/// The machine in one line, without its name, and how the programs were built, where the task says so.
pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown CPU".to_owned());
    let memory = field("/proc/meminfo", "MemTotal").and_then(|text| kib(&text)).unwrap_or(0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = version(&kernel);
    let gib = memory as f64 / 1024.0 / 1024.0;
    format!("{cores} cores of {cpu}, {gib:.0} GiB, Linux {kernel}{}", built())
}

/// How all that is measured was built, where the task says so; other gateways come as they are shipped.
pub(crate) fn built() -> String {
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

/// Major and minor: what stands behind them is whose kernel it is.
fn version(release: &str) -> String {
    let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
    let parts: Vec<_> = release.trim().splitn(3, '.').take(2).map(digits).collect();
    parts.join(".")
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kib(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// CPU time that process `pid` has used; zero where it is gone.
pub(crate) fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    Duration::from_millis(ticks(&stat).unwrap_or(0) * 1000 / TICKS)
}

/// User and system time out of `/proc/PID/stat`; the name in parentheses may hold blanks.
fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// Memory of process `pid` in MiB: resident now, and the most it ever was.
pub(crate) fn memory(pid: u32) -> (f64, f64) {
    let path = format!("/proc/{pid}/status");
    let mib = |name| {
        let kib = field(&path, name).and_then(|text| kib(&text)).unwrap_or(0);
        kib as f64 / 1024.0
    };
    (mib("VmRSS"), mib("VmHWM"))
}

/// CPU time of all processes and of the kernel since the machine started.
pub(crate) fn busy() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    Duration::from_millis(busy_ticks(&stat).unwrap_or(0) * 1000 / TICKS)
}

/// All but idle and waiting, out of the first line of `/proc/stat`.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let idle = fields.get(3)? + fields.get(4)?;
    // The last two, guests, are counted in the first two already.
    Some(fields.iter().take(8).sum::<u64>() - idle)
}

#[cfg(test)]
mod tests {
    use super::{busy_ticks, cpu, describe, memory, ticks, version};

    #[test]
    fn times_are_read_where_they_stand() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 3 0 5 6 7";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("7 (a) S 1"), None);
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
            assert_eq!(version(release), shown, "{release}");
        }
        let told = describe();
        let kernel = told.rsplit_once("Linux ").unwrap().1;
        assert!(kernel.chars().all(|c| c.is_ascii_digit() || c == '.'), "{told}");
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        let own = std::process::id();
        let mut sum = 0_u64;
        while cpu(own).is_zero() {
            sum = (0..1_000_000_u64).fold(sum, |sum, n| sum.wrapping_mul(31).wrapping_add(n));
        }
        let (now, most) = memory(own);
        assert!(now > 0.0 && most >= now, "{now} {most} {sum}");
        assert_eq!(cpu(u32::MAX), std::time::Duration::ZERO);
        assert!(describe().contains("cores of"), "{}", describe());
    }
}
