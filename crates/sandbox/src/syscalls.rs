//! System calls without a safe wrapper: fork into namespaces, and the setup of a child before exec.
//!
//! The rest of the sandbox setup is safe code. All functions here require a single-threaded
//! process.
#![expect(unsafe_code, reason = "clone, capset, mount_setattr and exec have no safe form")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::ptr;

use rustix::process::Pid;

/// Flag of a user namespace only.
pub(super) const USER_NAMESPACE: libc::c_int = libc::CLONE_NEWUSER;
/// Flags of all namespaces of a full sandbox.
pub(super) const ALL_NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// `_LINUX_CAPABILITY_VERSION_3`: two words of each set.
const CAPABILITIES: u32 = 0x2008_0522;
/// Disables all privileges of root permanently: the four bits of capabilities(7) and their locks,
/// without the one that would preserve capabilities.
const NO_ROOT_SECUREBITS: libc::c_ulong = 0x2f;

fn check_result(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Runs `child` in a copy of this process, in new namespaces of `namespaces` (0: none), and returns
/// its id. The copy exits when `child` returns.
pub(super) fn fork_into(namespaces: libc::c_int, child: impl FnOnce()) -> io::Result<Pid> {
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: no memory is shared and no stack given, so this is a fork. This process has one
    // thread.
    let pid = check_result(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })?;
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        return Ok(pid);
    }
    child();
    exit_now(127)
}

/// Exits this process immediately, without running destructors.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Closes all descriptors above standard error except `keep`.
pub(super) fn close_all_except(keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    keep.sort_unstable();
    let mut from = 3;
    for fd in keep.into_iter().chain([u32::MAX]) {
        if fd > from {
            let to = if fd == u32::MAX { fd } else { fd - 1 };
            // SAFETY: the closed descriptors have no user: the caller lists all that it still
            // needs.
            check_result(unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) })?;
        }
        from = fd.saturating_add(1);
    }
    Ok(())
}

/// Sets close-on-exec on all descriptors above standard error.
pub(super) fn set_cloexec_all() -> io::Result<()> {
    // SAFETY: only a flag of descriptors is changed.
    let marked =
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    check_result(marked).map(drop)
}

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

/// Sets attributes of a mount and its submounts. With `userns`, its owners are mapped by that
/// namespace.
pub(super) fn set_mount_attributes(
    tree: BorrowedFd<'_>,
    attributes: u64,
    userns: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let attr = MountAttr {
        set: attributes | userns.map_or(0, |_| libc::MOUNT_ATTR_IDMAP),
        clear: 0,
        propagation: 0,
        userns: userns.map_or(0, |fd| u64::try_from(fd.as_raw_fd()).unwrap_or(0)),
    };
    // An idmapped tree may not have submounts.
    let deep = if userns.is_some() { 0 } else { libc::AT_RECURSIVE };
    // SAFETY: the path is an empty C string, the attributes have the layout and size given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | deep,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    check_result(result).map(drop)
}

/// Drops every capability, including those that a program could gain by exec. A process without the
/// right to drop the latter cannot gain any.
pub(super) fn drop_capabilities() -> io::Result<()> {
    // SAFETY: both prctl calls take numbers only.
    unsafe {
        if libc::prctl(libc::PR_SET_SECUREBITS, NO_ROOT_SECUREBITS, 0, 0, 0) == 0 {
            let mut number: libc::c_ulong = 0;
            while libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) == 0 {
                number += 1;
            }
        }
    }
    let header: [u32; 2] = [CAPABILITIES, 0];
    let none = [0_u32; 6];
    // SAFETY: header and data have the sizes that version 3 states.
    check_result(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) })
        .map(drop)
}

/// Sets the hostname inside the sandbox.
pub(super) fn set_hostname(name: &str) -> io::Result<()> {
    // SAFETY: pointer and length are those of one string.
    check_result(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into()).map(drop)
}

/// Switches permanently to `uid`, with the same id as its only group.
pub(super) fn switch_user(uid: u32) -> io::Result<()> {
    // SAFETY: an empty list of groups, and numbers.
    unsafe {
        check_result(libc::setgroups(0, ptr::null()).into())?;
        check_result(libc::setresgid(uid, uid, uid).into())?;
        check_result(libc::setresuid(uid, uid, uid).into()).map(drop)
    }
}

/// Resets all signals to what a program expects: none ignored, handled or blocked.
pub(super) fn reset_signals() {
    // SAFETY: sets the default action for every signal; those that cannot be set have it already.
    unsafe {
        for number in 1..=64 {
            libc::signal(number, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// Event that wakes the init process of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeReason {
    ChildExited,
    Terminate,
    Timeout,
}

/// Blocks the two signals that [`wait_for_signal`] waits for.
pub(super) fn block_signals() {
    // SAFETY: the set is made by the call before it is used.
    unsafe {
        let set = awaited_signals();
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
    }
}

unsafe fn awaited_signals() -> libc::sigset_t {
    // SAFETY: a set of signals is plain memory, emptied before it is filled.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        set
    }
}

/// Waits until a child exits, SIGTERM arrives, or the time has passed.
pub(super) fn wait_for_signal(milliseconds: i64) -> WakeReason {
    let time =
        libc::timespec { tv_sec: milliseconds / 1000, tv_nsec: (milliseconds % 1000) * 1_000_000 };
    // SAFETY: set and time live through the call; the details are not requested.
    let got = unsafe {
        let set = awaited_signals();
        libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const time)
    };
    match got {
        libc::SIGCHLD => WakeReason::ChildExited,
        libc::SIGTERM => WakeReason::Terminate,
        _ => WakeReason::Timeout,
    }
}

/// Sends `signal` to every process that this one may signal, except itself and the init process.
pub(super) fn signal_all_processes(signal: libc::c_int) {
    // SAFETY: takes numbers.
    unsafe {
        libc::kill(-1, signal);
    }
}

/// Executes the program. Returns only on failure.
pub(super) fn exec_file(
    program: Result<BorrowedFd<'_>, &CStr>,
    args: &[CString],
    env: &[CString],
) -> io::Error {
    let pointers = |all: &[CString]| -> Vec<*const libc::c_char> {
        all.iter().map(|one| one.as_ptr()).chain([ptr::null()]).collect()
    };
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: both lists end with a null pointer and live, as their strings do, through the call.
    unsafe {
        match program {
            Ok(fd) => {
                let (fd, empty) = (fd.as_raw_fd(), c"".as_ptr());
                let flags = libc::AT_EMPTY_PATH;
                libc::syscall(libc::SYS_execveat, fd, empty, args.as_ptr(), env.as_ptr(), flags);
            }
            Err(path) => {
                libc::execve(path.as_ptr(), args.as_ptr(), env.as_ptr());
            }
        }
    }
    io::Error::last_os_error()
}

/// Makes a system call by number, for the self-test. Returns the error number, or 0 if it was
/// allowed.
pub(super) fn try_syscall(number: libc::c_long, args: [libc::c_long; 5]) -> i32 {
    syscall_result(number, args).err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

/// Makes a system call by number, for the self-test. Returns its result, or `None` on an error.
pub(super) fn raw_syscall(number: libc::c_long, args: [libc::c_long; 5]) -> Option<libc::c_long> {
    syscall_result(number, args).ok()
}

fn syscall_result(number: libc::c_long, args: [libc::c_long; 5]) -> io::Result<libc::c_long> {
    let [first, second, third, fourth, fifth] = args;
    // SAFETY: called by the self-test only, with null pointers, sizes of 0, invalid descriptors,
    // and one address of a static that the kernel reads.
    check_result(unsafe { libc::syscall(number, first, second, third, fourth, fifth) })
}
