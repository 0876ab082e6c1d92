//! Memory tuning of this process, and resource usage of this process and its children.
//!
//! It says to the system how its memory is to be kept, and nothing else: what is lost is speed at most.
#![expect(unsafe_code, reason = "prctl, madvise and getrusage have no safe form")]

use std::io;
use std::path::Path;

/// Whether memory may come in huge pages; at first it may. Each thread has some kilobytes of its own, and
/// a huge page rounds them up to two megabytes. Children inherit it.
///
/// # Errors
/// The system's.
pub fn huge_pages(may: bool) -> io::Result<()> {
    let never = libc::c_ulong::from(!may);
    // SAFETY: takes numbers only.
    let done = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, never, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the program's own code out of this process's memory, from where it comes back page by page as it
/// is run: most of what a start has run is never run again. Answers how many bytes of code there are.
///
/// # Errors
/// The system's.
pub fn forget_code() -> io::Result<usize> {
    let program = std::env::current_exe()?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut forgotten = 0;
    for (begin, length) in maps.lines().filter_map(|line| code(line, &program)) {
        // SAFETY: the range is a private mapping of the program's file that cannot be written, so nothing
        // in it differs from the file, and what is touched again is read from there.
        let done = unsafe { libc::madvise(begin as *mut _, length, libc::MADV_DONTNEED) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        forgotten += length;
    }
    Ok(forgotten)
}

/// What this process took: milliseconds of processor time, and the most KiB it ever had in memory.
pub fn used() -> (u64, u64) {
    used_by(libc::RUSAGE_SELF)
}

/// What children that have ended took, with theirs: the time of all, the memory of the largest.
pub fn used_by_children() -> (u64, u64) {
    used_by(libc::RUSAGE_CHILDREN)
}

fn used_by(who: libc::c_int) -> (u64, u64) {
    // SAFETY: the structure is plain numbers, and is filled before it is read.
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

/// Where a line of `/proc/PID/maps` has code of `program`, and how many bytes.
fn code(line: &str, program: &Path) -> Option<(usize, usize)> {
    let mut fields = line.splitn(6, ' ');
    let (begin, end) = fields.next()?.split_once('-')?;
    // What can be run and not written: data that was written to is not in the file.
    fields.next().filter(|rights| *rights == "r-xp")?;
    let file = fields.nth(3)?.trim_start();
    let [begin, end] = [begin, end].map(|text| usize::from_str_radix(text, 16).ok());
    let length = end?.checked_sub(begin?)?;
    (Path::new(file) == program).then_some((begin?, length))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{code, forget_code, huge_pages};

    #[test]
    fn only_code_of_the_program_is_forgotten() {
        let program = Path::new("/opt/a b");
        let line =
            |rights: &str, file: &str| format!("1000-3000 {rights} 00ebc000 fe:00 7   {file}");
        assert_eq!(code(&line("r-xp", "/opt/a b"), program), Some((0x1000, 0x2000)));
        for (rights, file) in [
            ("r--p", "/opt/a b"),
            ("rw-p", "/opt/a b"),
            ("rwxp", "/opt/a b"),
            ("r-xp", "/opt/a"),
            ("r-xp", ""),
        ] {
            assert_eq!(code(&line(rights, file), program), None, "{rights} {file}");
        }
    }

    /// Pages of the program's file that are in memory.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn what_is_forgotten_comes_back_when_it_is_run() {
        // A system that is short of memory may have taken the pages itself just before. The program of this
        // test is small.
        let mut tries = (0..5).map(|_| {
            assert_eq!(product(), 42);
            let before = resident();
            let bytes = forget_code().unwrap();
            (bytes, before, resident())
        });
        assert!(tries.any(|(bytes, before, after)| bytes > 64 << 10 && after < before));
        // Code that has surely been forgotten.
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
        huge_pages(false).unwrap();
        assert_ne!(enabled(), Some(true));
        huge_pages(true).unwrap();
        assert_ne!(enabled(), Some(false));
    }
}
