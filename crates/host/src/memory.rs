//! Memory tuning of this process, and resource usage of this process and its children.
//!
//! Only advises the system on memory management, so a failure costs speed at most.
#![expect(unsafe_code, reason = "prctl, madvise and getrusage have no safe form")]

use std::io;
use std::path::Path;

/// Enables or disables huge pages, which are enabled at first. Each thread has some kilobytes of
/// its own, which a huge page rounds up to two megabytes. Children inherit the setting.
///
/// # Errors
/// Returns the system's error.
pub fn set_huge_pages(enabled: bool) -> io::Result<()> {
    let never = libc::c_ulong::from(!enabled);
    // SAFETY: takes numbers only.
    let done = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, never, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Releases the pages of the program's code. They are loaded again when they are executed; most
/// startup code never is. Returns the bytes of code.
///
/// # Errors
/// Returns the system's error.
pub fn release_code_pages() -> io::Result<usize> {
    let program = std::env::current_exe()?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut forgotten = 0;
    for (begin, length) in maps.lines().filter_map(|line| parse_code_mapping(line, &program)) {
        // SAFETY: the range is a private, read-only mapping of the program's file. It equals the
        // file, and pages that are used again are loaded from there.
        let done = unsafe { libc::madvise(begin as *mut _, length, libc::MADV_DONTNEED) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        forgotten += length;
    }
    Ok(forgotten)
}

/// Returns the resource usage of this process: CPU milliseconds and peak KiB of memory.
pub fn resource_usage() -> (u64, u64) {
    read_rusage(libc::RUSAGE_SELF)
}

/// Returns the usage of ended children and their descendants: total CPU milliseconds, and peak KiB
/// of the largest.
pub fn children_resource_usage() -> (u64, u64) {
    read_rusage(libc::RUSAGE_CHILDREN)
}

fn read_rusage(who: libc::c_int) -> (u64, u64) {
    // SAFETY: the structure contains plain numbers and is initialised before it is read.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut used);
        used
    };
    let number = |of: i64| u64::try_from(of).unwrap_or(0);
    let milliseconds =
        |time: libc::timeval| number(time.tv_sec) * 1_000 + number(time.tv_usec) / 1_000;
    (milliseconds(used.ru_utime) + milliseconds(used.ru_stime), number(used.ru_maxrss))
}

/// Returns address and bytes of a `/proc/PID/maps` line if it maps code of `program`.
fn parse_code_mapping(line: &str, program: &Path) -> Option<(usize, usize)> {
    let mut fields = line.splitn(6, ' ');
    let (begin, end) = fields.next()?.split_once('-')?;
    // Executable and read-only: written data is not in the file.
    fields.next().filter(|rights| *rights == "r-xp")?;
    let file = fields.nth(3)?.trim_start();
    let [begin, end] = [begin, end].map(|text| usize::from_str_radix(text, 16).ok());
    let length = end?.checked_sub(begin?)?;
    (Path::new(file) == program).then_some((begin?, length))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{parse_code_mapping, release_code_pages, set_huge_pages};

    #[test]
    fn only_code_of_the_program_is_forgotten() {
        let program = Path::new("/opt/a b");
        let line =
            |rights: &str, file: &str| format!("1000-3000 {rights} 00ebc000 fe:00 7   {file}");
        assert_eq!(parse_code_mapping(&line("r-xp", "/opt/a b"), program), Some((0x1000, 0x2000)));
        for (rights, file) in [
            ("r--p", "/opt/a b"),
            ("rw-p", "/opt/a b"),
            ("rwxp", "/opt/a b"),
            ("r-xp", "/opt/a"),
            ("r-xp", ""),
        ] {
            assert_eq!(parse_code_mapping(&line(rights, file), program), None, "{rights} {file}");
        }
    }

    /// Returns the resident KiB of the program's file.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn what_is_forgotten_comes_back_when_it_is_run() {
        // A system short of memory may have released the pages just before. The program of this
        // test is small.
        let mut tries = (0..5).map(|_| {
            assert_eq!(product(), 42);
            let before = resident();
            let bytes = release_code_pages().unwrap();
            (bytes, before, resident())
        });
        assert!(tries.any(|(bytes, before, after)| bytes > 64 << 10 && after < before));
        // Code that was certainly released.
        assert_eq!(product(), 42);
    }

    fn product() -> u32 {
        "6*7".split('*').filter_map(|it| it.parse::<u32>().ok()).product()
    }

    #[test]
    fn huge_pages_are_refused_and_allowed() {
        let told = || std::fs::read_to_string("/proc/self/status").unwrap();
        let enabled = || {
            told().lines().find_map(|line| Some(line.strip_prefix("THP_enabled:")?.trim() == "1"))
        };
        set_huge_pages(false).unwrap();
        assert_ne!(enabled(), Some(true));
        set_huge_pages(true).unwrap();
        assert_ne!(enabled(), Some(false));
    }
}
