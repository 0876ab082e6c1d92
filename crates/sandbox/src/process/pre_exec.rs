//! Unsafe parts of process creation: work between fork and exec, and close-on-exec for inherited
//! descriptors.
//!
//! Other modules of `process` contain no unsafe code. The closure here allocates nothing and takes
//! no lock.
#![expect(unsafe_code, reason = "pre_exec and inherited descriptors have no safe form")]

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Pid, Signal};

/// Makes `command` die with this process, however that ends.
pub(super) fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec only two system calls run, both safe after fork.
    unsafe {
        command.pre_exec(move || set_parent_death_signal(parent));
    }
}

fn set_parent_death_signal(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have exited before the line above: then no signal arrives.
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Sets close-on-exec on every inherited descriptor above standard error.
pub(super) fn set_cloexec_inherited() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse().ok()).unwrap_or(0);
        if number > 2 {
            // SAFETY: used for one fcntl only, which returns an error if it is not open.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?;
        }
    }
    Ok(())
}
