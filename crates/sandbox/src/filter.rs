//! The seccomp filters, the last layer: a deny list for programs and an allow list for workers of
//! this binary.
//!
//! Two programs: one refuses calls by number, one lets a worker of this binary make only the calls it
//! needs. Before either stands a third, which ends other architectures and refuses the numbers of x32.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::Tier;

/// Refused with EPERM, whatever the arguments.
const REFUSED: &[libc::c_long] = &[
    // Queues of calls that no filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // The kernel.
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
    // Keys.
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
    // Files past their paths.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_mknodat,
    // The net, and every socket that is not one of a pair.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // Memory that outlives a process, and queues of the machine.
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

/// Answered with ENOSYS, so that the C library takes the older call, whose flags can be looked at.
const UNKNOWN: &[libc::c_long] = &[libc::SYS_clone3];

/// The namespaces that clone(2) makes. `CLONE_NEWTIME` shares its bit with the signal and is left out:
/// clone does not know it.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Calls that change how a process runs: the argument that names the process, and what the argument
/// before it must be where it says whether one process is meant (`PRIO_PROCESS`, `IOPRIO_WHO_PROCESS`).
const OF_PROCESSES: [(libc::c_long, u8, Option<u64>); 7] = [
    (libc::SYS_prlimit64, 0, None),
    (libc::SYS_sched_setaffinity, 0, None),
    (libc::SYS_sched_setattr, 0, None),
    (libc::SYS_sched_setparam, 0, None),
    (libc::SYS_sched_setscheduler, 0, None),
    (libc::SYS_setpriority, 1, Some(0)),
    (libc::SYS_ioprio_set, 1, Some(1)),
];

/// Types into a terminal as if someone had, TTY_IOCTL(4).
const INPUT: [libc::c_ulong; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// What a worker of this binary still may do once it has been loaded: memory, its own descriptors,
/// time, threads it has already, its end.
const WORKER: &[libc::c_long] = &[
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

/// What a worker may do beside that which reads the folder it sees: look up, open and list, and begin
/// threads. What it may open is the fence's to say, which lets nothing be written.
const READER: &[libc::c_long] = &[
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
    // Answered with ENOSYS by the filter before, which counts only where this one lets it pass.
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

fn errno(number: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(u32::try_from(number).unwrap_or(1))
}

fn target() -> Result<TargetArch, String> {
    std::env::consts::ARCH.try_into().map_err(|error| format!("{error}"))
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn compiled(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, String> {
    let filter = SeccompFilter::new(rules, otherwise, matched, target()?);
    filter.and_then(TryInto::try_into).map_err(|error| format!("{error}"))
}

fn always(numbers: &[libc::c_long]) -> Rules {
    numbers.iter().map(|&number| (number, Vec::new())).collect()
}

fn where_argument(index: u8, test: SeccompCmpOp, value: u64) -> Result<SeccompRule, String> {
    where_arguments(vec![(index, test, value)])
}

/// Matches where every test does.
fn where_arguments(tests: Vec<(u8, SeccompCmpOp, u64)>) -> Result<SeccompRule, String> {
    let condition =
        |(index, test, value)| SeccompCondition::new(index, SeccompCmpArgLen::Dword, test, value);
    let conditions: Result<Vec<_>, _> = tests.into_iter().map(condition).collect();
    conditions.and_then(SeccompRule::new).map_err(|error| format!("{error}"))
}

/// Refuses the calls of [`OF_PROCESSES`] on others than the caller and the process `own`.
fn refuse_other_processes(own: u64) -> Result<Rules, String> {
    let rules = |(number, index, kind): (libc::c_long, u8, Option<u64>)| {
        let other = [0, own].map(|pid| (index, SeccompCmpOp::Ne, pid));
        let mut rules = vec![where_arguments(other.into())?];
        if let Some(process) = kind {
            rules.push(where_argument(0, SeccompCmpOp::Ne, process)?);
        }
        Ok((number, rules))
    };
    OF_PROCESSES.into_iter().map(rules).collect()
}

/// The programs that refuse by number, in the order they are put in. `own` is the process that they are
/// for, where it has no process namespace to itself.
fn refusing(own: Option<u64>) -> Result<Vec<BpfProgram>, String> {
    let mut rules = always(REFUSED);
    rules.extend(always(REFUSED_HERE));
    let mut kinds = Vec::new();
    for bit in (0..31).map(|shift| 1_i32 << shift).filter(|bit| NAMESPACES & bit != 0) {
        let bit = u64::try_from(bit).unwrap_or(0);
        kinds.push(where_argument(0, SeccompCmpOp::MaskedEq(bit), bit)?);
    }
    rules.insert(libc::SYS_clone, kinds);
    let typing: Result<Vec<_>, _> =
        INPUT.iter().map(|&number| where_argument(1, SeccompCmpOp::Eq, number)).collect();
    rules.insert(libc::SYS_ioctl, typing?);
    if let Some(own) = own {
        rules.extend(refuse_other_processes(own)?);
    }
    let mut programs = foreign();
    programs.push(compiled(always(UNKNOWN), SeccompAction::Allow, errno(libc::ENOSYS))?);
    programs.push(compiled(rules, SeccompAction::Allow, errno(libc::EPERM))?);
    Ok(programs)
}

/// Refuses what has the bit of x32: those numbers share the architecture of the others, so no filter by
/// number sees them.
#[cfg(target_arch = "x86_64")]
fn foreign() -> Vec<BpfProgram> {
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

/// Puts the refusing filter on this thread, and on all it becomes. In a fenced cage, where other processes
/// of the same user can be named, it also refuses to change their limits, priority and scheduling.
pub(super) fn refuse(tier: Tier) -> Result<(), String> {
    let own = (tier == Tier::Fenced).then(|| u64::from(std::process::id()));
    for program in refusing(own)? {
        seccompiler::apply_filter(&program).map_err(|error| format!("{error}"))?;
    }
    Ok(())
}

/// Restricts this process to the system calls that pure computation needs. Afterwards it cannot
/// open files, start programs or create threads. For a worker, before it reads untrusted input.
///
/// # Errors
/// A message that says why the kernel refused.
pub fn narrow() -> Result<(), String> {
    apply_allow_list(always(WORKER))
}

/// Restricts this process to the calls of [`narrow`] and those for reading files. Afterwards it
/// cannot start programs. For a worker that reads a folder, before it reads anything there.
///
/// # Errors
/// Where the kernel refuses, in words.
pub fn narrow_to_reading() -> Result<(), String> {
    let mut rules = always(WORKER);
    rules.extend(always(READER));
    rules.extend(always(READER_HERE));
    apply_allow_list(rules)
}

fn apply_allow_list(rules: Rules) -> Result<(), String> {
    let program = compiled(rules, errno(libc::EPERM), SeccompAction::Allow)?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| format!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_can_be_made_and_are_of_a_size_the_kernel_takes() {
        for own in [None, Some(7)] {
            for program in refusing(own).unwrap() {
                assert!((4..4096).contains(&program.len()), "{}", program.len());
            }
        }
    }

    #[test]
    fn nothing_is_both_refused_and_a_worker_s() {
        let mut allowed = WORKER.iter().chain(READER).chain(READER_HERE);
        assert!(allowed.all(|number| !REFUSED.contains(number)));
    }
}
