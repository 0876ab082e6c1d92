//! Escape attempts of the self-test, as they run inside the sandbox.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::process::ExitCode;

use rustix::process::Pid;

use super::super::syscalls::{raw_syscall, try_syscall};

/// Number of descriptors that are checked.
const DESCRIPTORS: i64 = 256;
/// `LANDLOCK_CREATE_RULESET_VERSION`.
const VERSION: libc::c_long = 1;
/// `struct sched_attr` of sched_setattr(2): its size, and the flags to keep policy and parameters.
static UNCHANGED: [u32; 12] = [48, 0, 0x18, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Makes every attempt that the arguments after [`SELF_TEST_COMMAND`](super::SELF_TEST_COMMAND)
/// request, and prints one line for each: `held` or `broken`, its name and the result. Fails if the
/// arguments are not the launcher's.
pub fn run_escape_attempts(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some([folder, name, tcp, udp, pid]) = super::parse_args(args) else {
        return ExitCode::from(2);
    };
    let mut tell = AttemptReporter(io::stdout().lock());
    let folder = Path::new(&folder);
    try_files(&mut tell, folder);
    try_sockets(&mut tell, folder, &name, (&tcp, &udp));
    try_other_processes(&mut tell, &pid);
    try_syscalls(&mut tell);
    check_own_state(&mut tell);
    ExitCode::SUCCESS
}

struct AttemptReporter<W>(W);

impl<W: io::Write> AttemptReporter<W> {
    /// Passes if the attempt fails.
    fn expect_refused<T, E: std::fmt::Display>(&mut self, name: &str, result: Result<T, E>) {
        match result {
            Ok(_) => self.report_attempt(false, name, "it was allowed"),
            Err(error) => self.report_attempt(true, name, &error.to_string()),
        }
    }

    /// Passes if the attempt fails with an error of a filter.
    fn expect_filtered(&mut self, name: &str, errno: i32) {
        self.expect_errno(name, errno, &[libc::EPERM, libc::EACCES, libc::ENOSYS]);
    }

    /// Passes if the attempt fails with one of `good`.
    fn expect_errno(&mut self, name: &str, errno: i32, good: &[i32]) {
        let error = io::Error::from_raw_os_error(errno);
        self.report_attempt(good.contains(&errno), name, &error.to_string());
    }

    fn report_attempt(&mut self, held: bool, name: &str, detail: &str) {
        let word = if held { "held" } else { "broken" };
        // If the reader is gone, there is no report, which counts as a failure.
        let _told = writeln!(self.0, "{word}\t{name}\t{}", detail.replace(['\n', '\t'], " "));
    }
}

fn try_files(tell: &mut AttemptReporter<impl io::Write>, folder: &Path) {
    tell.expect_refused("read a file outside", fs::read(folder.join("canary")));
    // A full sandbox may have its own folder of that name; the launcher checks whether the file
    // exists outside.
    let _inside = fs::write(folder.join(super::ESCAPE_FILE), "x");
    let listed = fs::read_dir(folder).and_then(|mut entries| {
        let canary = entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() == "canary"));
        if canary { Ok(()) } else { Err(io::Error::other("nothing of it is there")) }
    });
    tell.expect_refused("list a folder outside", listed);
    let up = Path::new("..").join("canary");
    tell.expect_refused("read past the working folder", fs::read(up));
    let inside = folder.join("work").join("note");
    let wrote = fs::write(&inside, "x").and_then(|()| fs::read(&inside));
    let detail = wrote.as_ref().map_or_else(ToString::to_string, |_| "it works".to_owned());
    tell.report_attempt(wrote.is_ok(), "write in the working folder", &detail);
    let link = folder.join("work").join("link");
    let through =
        std::os::unix::fs::symlink(folder.join("canary"), &link).and_then(|()| fs::read(&link));
    tell.expect_refused("read a file outside by a link", through);
}

fn try_sockets(
    tell: &mut AttemptReporter<impl io::Write>,
    folder: &Path,
    name: &str,
    ports: (&str, &str),
) {
    let (tcp, udp) = ports;
    #[expect(clippy::disallowed_methods, reason = "it is tried whether dialling is refused")]
    tell.expect_refused("connect by TCP", TcpStream::connect(format!("127.0.0.1:{tcp}")));
    let sent = UdpSocket::bind("127.0.0.1:0")
        .and_then(|socket| socket.send_to(b"x", format!("127.0.0.1:{udp}")));
    tell.expect_refused("send by UDP", sent);
    tell.expect_refused(
        "connect to a socket by its path",
        UnixStream::connect(folder.join("socket")),
    );
    let abstracted =
        SocketAddr::from_abstract_name(name).and_then(|address| UnixStream::connect_addr(&address));
    tell.expect_refused("connect to an abstract socket", abstracted);
}

fn try_other_processes(tell: &mut AttemptReporter<impl io::Write>, pid: &str) {
    tell.expect_refused("read another's environment", fs::read(format!("/proc/{pid}/environ")));
    let other = pid.parse().ok().and_then(Pid::from_raw);
    let reached = other.map_or(Err(rustix::io::Errno::SRCH), rustix::process::test_kill_process);
    tell.expect_refused("signal another process", reached);
    let number = pid.parse().unwrap_or(1);
    // PTRACE_SEIZE: if it is allowed, it stops nothing.
    tell.expect_filtered(
        "trace another process",
        try_syscall(libc::SYS_ptrace, [0x4206, number, 0, 0, 0]),
    );
    change_process(tell, number);
}

/// Attempts changes of another process that have no effect even if they are allowed.
fn change_process(tell: &mut AttemptReporter<impl io::Write>, pid: libc::c_long) {
    let now = raw_syscall(libc::SYS_getpriority, [0, pid, 0, 0, 0]).map_or(0, |raw| 20 - raw);
    let unchanged = std::ptr::from_ref(&UNCHANGED).expose_provenance();
    let unchanged = libc::c_long::try_from(unchanged).unwrap_or(0);
    let calls = [
        ("change another's limits", libc::SYS_prlimit64, [pid, 0, 0, 0, 0]),
        ("change another's priority", libc::SYS_setpriority, [0, pid, now, 0, 0]),
        ("change another's scheduling", libc::SYS_sched_setattr, [pid, unchanged, 0, 0, 0]),
        ("change another's processors", libc::SYS_sched_setaffinity, [pid, 0, 0, 0, 0]),
        ("change another's disk priority", libc::SYS_ioprio_set, [1, pid, 0, 0, 0]),
    ];
    for (name, number, args) in calls {
        let errno = try_syscall(number, args);
        // A full sandbox has no process of that id.
        tell.expect_errno(name, errno, &[libc::EPERM, libc::EACCES, libc::ENOSYS, libc::ESRCH]);
    }
}

fn try_syscalls(tell: &mut AttemptReporter<impl io::Write>) {
    let user = libc::c_long::from(libc::CLONE_NEWUSER);
    let calls = [
        ("make a user namespace", libc::SYS_unshare, [user, 0, 0, 0, 0]),
        ("use io_uring", libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
        ("mount", libc::SYS_mount, [0; 5]),
        ("use bpf", libc::SYS_bpf, [-1, 0, 0, 0, 0]),
        ("use keys", libc::SYS_keyctl, [-1, 0, 0, 0, 0]),
        ("watch performance", libc::SYS_perf_event_open, [0, 0, -1, -1, 0]),
        ("catch page faults", libc::SYS_userfaultfd, [-1, 0, 0, 0, 0]),
        ("open files by handle", libc::SYS_open_by_handle_at, [-1, 0, 0, 0, 0]),
        ("change the root", libc::SYS_chroot, [0; 5]),
    ];
    for (name, number, args) in calls {
        tell.expect_filtered(name, try_syscall(number, args));
    }
}

fn check_own_state(tell: &mut AttemptReporter<impl io::Write>) {
    let open: Vec<i64> = (3..DESCRIPTORS)
        .filter(|&fd| try_syscall(libc::SYS_fcntl, [fd, 1, 0, 0, 0]) == 0)
        .collect();
    tell.report_attempt(
        open.is_empty(),
        "hold descriptors of others",
        &format!("{open:?} are open"),
    );
    let root = rustix::process::geteuid().is_root();
    tell.report_attempt(!root, "be the superuser", if root { "it is" } else { "it is not" });
    let sealed = rustix::thread::no_new_privs().unwrap_or(false);
    tell.report_attempt(sealed, "gain rights by a program", &format!("no_new_privs is {sealed}"));
    // PR_CAPBSET_READ would report possible capabilities; this reports the actual ones.
    let rights = rustix::thread::capabilities(None)
        .map_or(true, |sets| !(sets.effective | sets.permitted).is_empty());
    tell.report_attempt(
        !rights,
        "have capabilities",
        if rights { "it has some" } else { "it has none" },
    );
}

/// Returns the Landlock ABI version of the kernel; 0 if it has none or refuses to report it.
pub(super) fn landlock_version() -> u32 {
    raw_syscall(libc::SYS_landlock_create_ruleset, [0, 0, VERSION, 0, 0])
        .and_then(|version| u32::try_from(version).ok())
        .unwrap_or(0)
}
