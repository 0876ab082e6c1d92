//! The seccomp filters, the last layer: a deny list for programs and an allow list for workers of
//! this binary.
//!
//! One filter denies calls by number, the other lets a worker of this binary make only the calls it
//! needs. A third filter before either of them kills processes of other architectures and denies
//! x32 calls.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::SandboxLevel;

/// Denied with EPERM, whatever the arguments.
const DENIED_SYSCALLS: &[libc::c_long] = &[
    // Asynchronous calls that no filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Access to other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Kernel interfaces.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_vhangup,
    libc::SYS_personality,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    // Kernel keys.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // File access that bypasses paths.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_mknodat,
    // Network, and every socket except socket pairs.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // Memory that outlives a process, and system-wide queues.
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_kexec_file_load,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
    libc::SYS_mknod,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// Answered with ENOSYS, so that the C library uses the older call, whose flags can be checked.
const ENOSYS_SYSCALLS: &[libc::c_long] = &[libc::SYS_clone3];

/// Namespace flags of clone(2). `CLONE_NEWTIME` shares its bit with the signal and is left out:
/// clone does not support it.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Calls that change how a process runs: the argument that names the process, and the required
/// value of the argument before it if that selects a single process (`PRIO_PROCESS`,
/// `IOPRIO_WHO_PROCESS`).
const PROCESS_SYSCALLS: [(libc::c_long, u8, Option<u64>); 7] = [
    (libc::SYS_prlimit64, 0, None),
    (libc::SYS_sched_setaffinity, 0, None),
    (libc::SYS_sched_setattr, 0, None),
    (libc::SYS_sched_setparam, 0, None),
    (libc::SYS_sched_setscheduler, 0, None),
    (libc::SYS_setpriority, 1, Some(0)),
    (libc::SYS_ioprio_set, 1, Some(1)),
];

/// Injects input into a terminal, TTY_IOCTL(4).
const TERMINAL_INPUT_IOCTLS: [libc::c_ulong; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// Calls that a loaded worker of this binary may still make: memory, its own descriptors, time,
/// existing threads and exit.
const WORKER_SYSCALLS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_geteuid,
    libc::SYS_getrusage,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Additional calls of a worker that reads a folder: look up, open and list files, and start
/// threads. Landlock decides which files it may open and denies all writes.
const READER_SYSCALLS: &[libc::c_long] = &[
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_pread64,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_getuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_clone,
    // The filter before answers ENOSYS, which applies only if this one allows the call.
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_prctl,
    libc::SYS_sched_getaffinity,
    libc::SYS_membarrier,
];

#[cfg(target_arch = "x86_64")]
const READER_HERE: &[libc::c_long] =
    &[libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink, libc::SYS_access];
#[cfg(not(target_arch = "x86_64"))]
const READER_HERE: &[libc::c_long] = &[];

fn errno_action(number: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(u32::try_from(number).unwrap_or(1))
}

fn target_arch() -> Result<TargetArch, String> {
    std::env::consts::ARCH.try_into().map_err(|error| format!("{error}"))
}

type SyscallRules = BTreeMap<i64, Vec<SeccompRule>>;

fn compile_filter(
    rules: SyscallRules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, String> {
    let filter = SeccompFilter::new(rules, otherwise, matched, target_arch()?);
    filter.and_then(TryInto::try_into).map_err(|error| format!("{error}"))
}

fn unconditional_rules(numbers: &[libc::c_long]) -> SyscallRules {
    numbers.iter().map(|&number| (number, Vec::new())).collect()
}

fn argument_rule(index: u8, test: SeccompCmpOp, value: u64) -> Result<SeccompRule, String> {
    arguments_rule(vec![(index, test, value)])
}

/// Creates a rule that matches if every test does.
fn arguments_rule(tests: Vec<(u8, SeccompCmpOp, u64)>) -> Result<SeccompRule, String> {
    let condition =
        |(index, test, value)| SeccompCondition::new(index, SeccompCmpArgLen::Dword, test, value);
    let conditions: Result<Vec<_>, _> = tests.into_iter().map(condition).collect();
    conditions.and_then(SeccompRule::new).map_err(|error| format!("{error}"))
}

/// Denies the calls of [`PROCESS_SYSCALLS`] on processes other than the caller and the process
/// `own`.
fn deny_other_processes(own: u64) -> Result<SyscallRules, String> {
    let rules = |(number, index, kind): (libc::c_long, u8, Option<u64>)| {
        let other = [0, own].map(|pid| (index, SeccompCmpOp::Ne, pid));
        let mut rules = vec![arguments_rule(other.into())?];
        if let Some(process) = kind {
            rules.push(argument_rule(0, SeccompCmpOp::Ne, process)?);
        }
        Ok((number, rules))
    };
    PROCESS_SYSCALLS.into_iter().map(rules).collect()
}

/// Builds the deny filters in installation order. `own` is the id of the filtered process, if it
/// shares its process namespace.
fn deny_programs(own: Option<u64>) -> Result<Vec<BpfProgram>, String> {
    let mut rules = unconditional_rules(DENIED_SYSCALLS);
    rules.extend(unconditional_rules(REFUSED_HERE));
    let mut kinds = Vec::new();
    for bit in (0..31).map(|shift| 1_i32 << shift).filter(|bit| NAMESPACES & bit != 0) {
        let bit = u64::try_from(bit).unwrap_or(0);
        kinds.push(argument_rule(0, SeccompCmpOp::MaskedEq(bit), bit)?);
    }
    rules.insert(libc::SYS_clone, kinds);
    let typing: Result<Vec<_>, _> = TERMINAL_INPUT_IOCTLS
        .iter()
        .map(|&number| argument_rule(1, SeccompCmpOp::Eq, number))
        .collect();
    rules.insert(libc::SYS_ioctl, typing?);
    if let Some(own) = own {
        rules.extend(deny_other_processes(own)?);
    }
    let mut programs = x32_program();
    programs.push(compile_filter(
        unconditional_rules(ENOSYS_SYSCALLS),
        SeccompAction::Allow,
        errno_action(libc::ENOSYS),
    )?);
    programs.push(compile_filter(rules, SeccompAction::Allow, errno_action(libc::EPERM))?);
    Ok(programs)
}

/// Builds a filter that denies x32 calls: they share the architecture of the others, so no filter
/// by number sees them.
#[cfg(target_arch = "x86_64")]
fn x32_program() -> Vec<BpfProgram> {
    const LOAD_NUMBER: sock_filter = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    const IS_X32: sock_filter = sock_filter { code: 0x35, jt: 0, jf: 1, k: 0x4000_0000 };
    const REFUSE: sock_filter = sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0026 };
    const ALLOW: sock_filter = sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    vec![vec![LOAD_NUMBER, IS_X32, REFUSE, ALLOW]]
}
#[cfg(not(target_arch = "x86_64"))]
fn foreign() -> Vec<BpfProgram> {
    Vec::new()
}

/// Installs the deny filter on this thread and its children. Without namespaces, it also denies
/// changes of other processes' limits, priority and scheduling.
pub(super) fn install_deny_filter(level: SandboxLevel) -> Result<(), String> {
    let own = (level == SandboxLevel::NoNamespaces).then(|| u64::from(std::process::id()));
    for program in deny_programs(own)? {
        seccompiler::apply_filter(&program).map_err(|error| format!("{error}"))?;
    }
    Ok(())
}

/// Restricts this process to the system calls that pure computation needs. Afterwards it cannot
/// open files, start programs or create threads. For a worker, before it reads untrusted input.
///
/// # Errors
/// A message that says why the kernel refused.
pub fn restrict_to_computing() -> Result<(), String> {
    apply_allow_list(unconditional_rules(WORKER_SYSCALLS))
}

/// Restricts this process to the calls of [`restrict_to_computing`] and those for reading files.
/// Afterwards it cannot start programs. For a worker that reads a folder, before it reads anything
/// there.
///
/// # Errors
/// A message that says why the kernel refused.
pub fn restrict_to_reading() -> Result<(), String> {
    let mut rules = unconditional_rules(WORKER_SYSCALLS);
    rules.extend(unconditional_rules(READER_SYSCALLS));
    rules.extend(unconditional_rules(READER_HERE));
    apply_allow_list(rules)
}

fn apply_allow_list(rules: SyscallRules) -> Result<(), String> {
    let program = compile_filter(rules, errno_action(libc::EPERM), SeccompAction::Allow)?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| format!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_can_be_made_and_are_of_a_size_the_kernel_takes() {
        for own in [None, Some(7)] {
            for program in deny_programs(own).unwrap() {
                assert!((4..4096).contains(&program.len()), "{}", program.len());
            }
        }
    }

    #[test]
    fn nothing_is_both_refused_and_a_worker_s() {
        let mut allowed = WORKER_SYSCALLS.iter().chain(READER_SYSCALLS).chain(READER_HERE);
        assert!(allowed.all(|number| !DENIED_SYSCALLS.contains(number)));
    }
}
