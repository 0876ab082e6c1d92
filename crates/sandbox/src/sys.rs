//! System calls without a safe wrapper: fork into namespaces, and the setup of a child before exec.
//!
//! Nothing else of the sandbox is unsafe. All of it is called where there is one thread only.
#![expect(unsafe_code, reason = "clone, capset, mount_setattr and exec have no safe form")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::ptr;

use rustix::process::Pid;

/// A user namespace by itself.
pub(super) const NEW_USER: libc::c_int = libc::CLONE_NEWUSER;
/// All the namespaces of a cage.
pub(super) const NEW_ALL: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// `_LINUX_CAPABILITY_VERSION_3`: two words of each set.
const CAPABILITIES: u32 = 0x2008_0522;
/// No privilege by being the superuser, for good: the four bits of capabilities(7) and their locks,
/// without the one that would keep capabilities.
const NO_ROOT: libc::c_ulong = 0x2f;

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Runs `child` in a copy of this process, in new namespaces of `kinds` (0: none); answers its id.
/// The copy ends where `child` returns.
pub(super) fn fork_into(kinds: libc::c_int, child: impl FnOnce()) -> io::Result<Pid> {
    let flags = libc::c_long::from(kinds | libc::SIGCHLD);
    // SAFETY: no memory is shared and no stack given, so this is a fork; this process has one thread.
    let pid = checked(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })?;
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        return Ok(pid);
    }
    child();
    leave(127)
}

/// Ends this process at once, running nothing of it.
pub(super) fn leave(code: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Closes everything above standard error but `kept`.
pub(super) fn close_but(kept: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    kept.sort_unstable();
    let mut from = 3;
    for fd in kept.into_iter().chain([u32::MAX]) {
        if fd > from {
            let to = if fd == u32::MAX { fd } else { fd - 1 };
            // SAFETY: what is closed here is used by nobody: the caller names all it goes on with.
            checked(unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) })?;
        }
        from = fd.saturating_add(1);
    }
    Ok(())
}

/// Marks everything above standard error to be closed by exec.
pub(super) fn close_by_exec() -> io::Result<()> {
    // SAFETY: only a flag of descriptors is changed.
    let marked =
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    checked(marked).map(drop)
}

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

/// Sets attributes of a mount and of those under it; with `userns`, its owners are seen through that
/// namespace's map.
pub(super) fn mount_attributes(
    tree: BorrowedFd<'_>,
    set: u64,
    userns: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let attr = MountAttr {
        set: set | userns.map_or(0, |_| libc::MOUNT_ATTR_IDMAP),
        clear: 0,
        propagation: 0,
        userns: userns.map_or(0, |fd| u64::try_from(fd.as_raw_fd()).unwrap_or(0)),
    };
    // An idmapped tree may not have others below it.
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
    checked(result).map(drop)
}

/// Gives up every capability, also those that a program could gain by exec. Where the process has no
/// right to do the latter there is nothing that it could gain.
pub(super) fn drop_capabilities() -> io::Result<()> {
    // SAFETY: both prctl calls take numbers only.
    unsafe {
        if libc::prctl(libc::PR_SET_SECUREBITS, NO_ROOT, 0, 0, 0) == 0 {
            let mut number: libc::c_ulong = 0;
            while libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) == 0 {
                number += 1;
            }
        }
    }
    let header: [u32; 2] = [CAPABILITIES, 0];
    let none = [0_u32; 6];
    // SAFETY: header and data have the sizes that version 3 states.
    checked(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) }).map(drop)
}

/// Names the machine as it is seen from inside.
pub(super) fn name_machine(name: &str) -> io::Result<()> {
    // SAFETY: pointer and length are those of one string.
    checked(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into()).map(drop)
}

/// Becomes `uid`, with that as its only group, for good.
pub(super) fn become_user(uid: u32) -> io::Result<()> {
    // SAFETY: an empty list of groups, and numbers.
    unsafe {
        checked(libc::setgroups(0, ptr::null()).into())?;
        checked(libc::setresgid(uid, uid, uid).into())?;
        checked(libc::setresuid(uid, uid, uid).into()).map(drop)
    }
}

/// All signals as a program expects them: none ignored, none handled, none blocked.
pub(super) fn plain_signals() {
    // SAFETY: the default action is set for every number there is; those that are refused have it.
    unsafe {
        for number in 1..=64 {
            libc::signal(number, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// What wakes the first process of a cage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    Child,
    Asked,
    Time,
}

/// Blocks the two signals that [`wait_signal`] waits for.
pub(super) fn hold_signals() {
    // SAFETY: the set is made by the call before it is used.
    unsafe {
        let set = awaited();
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
    }
}

unsafe fn awaited() -> libc::sigset_t {
    // SAFETY: a set of signals is plain memory, emptied before it is filled.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        set
    }
}

/// Waits until a child changes, the end is asked for, or so much time has passed.
pub(super) fn wait_signal(milliseconds: i64) -> Woken {
    let time =
        libc::timespec { tv_sec: milliseconds / 1000, tv_nsec: (milliseconds % 1000) * 1_000_000 };
    // SAFETY: set and time live through the call; nobody asks for the details.
    let got = unsafe {
        let set = awaited();
        libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const time)
    };
    match got {
        libc::SIGCHLD => Woken::Child,
        libc::SIGTERM => Woken::Asked,
        _ => Woken::Time,
    }
}

/// Sends `signal` to every process that this one may signal, itself and the first one left out.
pub(super) fn signal_all(signal: libc::c_int) {
    // SAFETY: takes numbers.
    unsafe {
        libc::kill(-1, signal);
    }
}

/// Becomes the program; answers only where it cannot.
pub(super) fn execute(
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

/// Makes a system call by its number, for the probe; answers the error, or 0 where it was allowed.
pub(super) fn attempt(number: libc::c_long, args: [libc::c_long; 5]) -> i32 {
    answered(number, args).err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

/// The same, for what it answers.
pub(super) fn answer(number: libc::c_long, args: [libc::c_long; 5]) -> Option<libc::c_long> {
    answered(number, args).ok()
}

fn answered(number: libc::c_long, args: [libc::c_long; 5]) -> io::Result<libc::c_long> {
    let [first, second, third, fourth, fifth] = args;
    // SAFETY: called by the probe only, with null pointers, sizes of 0, invalid descriptors, and one
    // address of a static that the kernel reads.
    checked(unsafe { libc::syscall(number, first, second, third, fourth, fifth) })
}
