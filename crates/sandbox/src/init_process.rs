//! The init process of a full sandbox. It builds the root file system, starts the program, forwards
//! SIGTERM, reaps orphans, and ends all processes when the program exits.
//!
//! The init process is a copy of the supervisor in new namespaces. It has one thread and never
//! reads the program's output.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use super::exec_setup::{self, ExecPlan, with_step};
use super::init_status::{ExitCause, InitStatus, ProgramExit};
use super::{memory_usage, root_fs, syscalls};

/// Interval of memory checks, in milliseconds.
const MEMORY_CHECK_INTERVAL_MS: i64 = 50;

/// Inputs of the init process.
pub(super) struct InitContext {
    pub(super) plan: ExecPlan,
    /// Mounts that were prepared beforehand.
    pub(super) mounts: root_fs::PreparedMounts,
    /// Pipe to the supervisor: one line each for start and exit.
    pub(super) status_pipe: File,
    /// Closed at its other end when the supervisor is gone.
    pub(super) lifeline: OwnedFd,
    pub(super) outer_ids: OuterIds,
}

/// User and group outside the sandbox.
#[derive(Clone, Copy)]
pub(super) struct OuterIds {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Runs the init process of a full sandbox.
pub(super) fn run_init(mut context: InitContext) {
    let began = set_up(&mut context);
    let status = match began {
        Ok(main) => {
            let _told = context.status_pipe.write_all(InitStatus::Running.encode().as_bytes());
            let most = context.plan.spec.limits.total_memory_bytes;
            InitStatus::Exited(supervise_program(main, most))
        }
        Err(why) => InitStatus::Failed(why),
    };
    let _told = context.status_pipe.write_all(status.encode().as_bytes());
    // No code of the supervisor's copy may run any more, not even its destructors.
    syscalls::exit_now(0)
}

fn set_up(inside: &mut InitContext) -> Result<Pid, String> {
    syscalls::reset_signals();
    syscalls::block_signals();
    with_step("its descriptors", close_descriptors(inside))?;
    with_step("its session", rustix::process::setsid())?;
    with_step("user namespace", write_id_maps(inside.outer_ids))?;
    with_step("its name", syscalls::set_hostname("sandbox"))?;
    with_step(
        "its view of files",
        root_fs::enter_root_fs(&inside.plan.spec, std::mem::take(&mut inside.mounts)),
    )?;
    with_step("its rights", syscalls::drop_capabilities())?;
    with_step("its rights", rustix::thread::set_no_new_privs(true))?;
    let hidden = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    with_step("its rights", hidden)?;
    with_step("its parent", rustix::process::set_parent_process_death_signal(Some(Signal::KILL)))?;
    // The supervisor may have exited before the line above: then no signal arrives.
    let mut ends = [PollFd::new(&inside.lifeline, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    if with_step("its parent", rustix::event::poll(&mut ends, Some(&now)))? > 0 {
        return Err("its supervisor has ended".to_owned());
    }
    start_program(&inside.plan)
}

fn close_descriptors(inside: &InitContext) -> io::Result<()> {
    let act = &inside.plan;
    let mut kept: Vec<i32> = act.stdio.iter().map(AsRawFd::as_raw_fd).collect();
    kept.extend(act.program_fd.iter().chain(&inside.mounts.work).map(AsRawFd::as_raw_fd));
    kept.extend(inside.mounts.readable.iter().map(|(_, tree)| tree.as_raw_fd()));
    kept.extend([inside.status_pipe.as_raw_fd(), inside.lifeline.as_raw_fd()]);
    syscalls::close_all_except(&kept)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(null.as_fd())?;
    rustix::stdio::dup2_stdout(null.as_fd())?;
    rustix::stdio::dup2_stderr(null.as_fd())?;
    Ok(())
}

/// Maps one user and one group: the supervisor's, under an arbitrary number.
fn write_id_maps(OuterIds { uid, gid }: OuterIds) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("1000 {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("1000 {gid} 1"))
}

/// Starts the program. Returns once it runs, or with the reason why it does not.
fn start_program(act: &ExecPlan) -> Result<Pid, String> {
    let (mut why, tell) = with_step("a pipe", io::pipe())?;
    let main = syscalls::fork_into(0, || {
        let error = exec_setup::exec_program(act);
        let _told = (&tell).write_all(error.as_bytes());
    });
    let main = with_step("a process", main)?;
    drop(tell);
    let mut text = String::new();
    // Closed by exec, so end of file without a message means that the program runs.
    with_step("a pipe", why.read_to_string(&mut text))?;
    if text.is_empty() { Ok(main) } else { Err(text) }
}

/// Waits for the program's exit and returns it.
fn supervise_program(main: Pid, most: u64) -> ProgramExit {
    let mut over = false;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == main => {
                let cause = ExitCause::from_status(Some(status));
                return ProgramExit { cause, exceeded_memory: over };
            }
            Ok(Some(_)) => continue,
            Err(error) if error != rustix::io::Errno::INTR => {
                return ProgramExit { cause: ExitCause::from_status(None), exceeded_memory: false };
            }
            Ok(None) | Err(_) => {}
        }
        match syscalls::wait_for_signal(MEMORY_CHECK_INTERVAL_MS) {
            syscalls::WakeReason::ChildExited => {}
            syscalls::WakeReason::Terminate => syscalls::signal_all_processes(libc::SIGTERM),
            syscalls::WakeReason::Timeout => {
                if memory_usage::private_memory_total() > most {
                    over = true;
                    syscalls::signal_all_processes(libc::SIGKILL);
                }
            }
        }
    }
}
