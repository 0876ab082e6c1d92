//! The supervisor's part of starting a sandbox: drops root, creates the init process and reads its
//! status.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{DumpableBehavior, Pid};

use super::exec_setup::{self, ExecPlan, with_step};
use super::init_process::{self, InitContext, OuterIds};
use super::init_status::{InitStatus, ProgramExit};
use super::root_fs::PreparedMounts;
use super::{ProgramSource, SandboxLevel, SandboxSpec, idmapped_mount, memory_usage, syscalls};
use crate::process::supervisor_protocol::ExecRequest;

/// Tasks that other programs of the user may begin while a program runs without namespaces, before its
/// own bound refuses it one: the program itself could start as many more.
const FOREIGN_TASK_RESERVE: u64 = 64;

/// Maximum bytes of a line that the init process writes, which is more than a report needs.
const MAX_STATUS_LINE: u64 = 4096;

/// Process that runs in its sandbox.
#[derive(Debug)]
pub(crate) struct RunningSandbox {
    /// Init process of a full sandbox, else the program.
    pub(crate) main_pid: Pid,
    /// Whether killing `main_pid` kills all processes.
    pub(crate) is_full: bool,
    report: File,
    scratch: Option<PathBuf>,
    _lifeline: OwnedFd,
}

impl RunningSandbox {
    /// Returns how the program ended, if the init process reported it.
    pub(crate) fn read_exit(&mut self) -> Option<ProgramExit> {
        if !self.is_full {
            return None;
        }
        let mut text = String::new();
        (&self.report).take(MAX_STATUS_LINE).read_to_string(&mut text).ok()?;
        match InitStatus::decode(&text)? {
            InitStatus::Exited(exit) => Some(exit),
            InitStatus::Running | InitStatus::Failed(_) => None,
        }
    }
}

impl Drop for RunningSandbox {
    fn drop(&mut self) {
        if let Some(scratch) = &self.scratch {
            let _kept = std::fs::remove_dir_all(scratch);
        }
    }
}

/// Starts `request` in the sandbox `sandbox`. Returns once the program runs. Errors name the
/// refused step.
pub(crate) fn launch_sandbox(
    request: ExecRequest,
    sandbox: SandboxSpec,
    streams: [OwnedFd; 3],
) -> Result<RunningSandbox, String> {
    start_program(request, sandbox, streams)
        .map_err(|reason| format!("the sandbox could not be created: {reason}"))
}

fn start_program(
    request: ExecRequest,
    sandbox: SandboxSpec,
    streams: [OwnedFd; 3],
) -> Result<RunningSandbox, String> {
    // Opened before the sandbox is created, since it may be out of reach afterwards.
    let binary = match sandbox.program {
        ProgramSource::InSandbox => None,
        ProgramSource::OwnBinary => {
            Some(with_step("this program", open_program(Path::new("/proc/self/exe")))?)
        }
        ProgramSource::OpenedOutside => {
            Some(with_step("its program", open_program(Path::new(&request.command)))?)
        }
    };
    let mut ready = PreparedMounts::default();
    if rustix::process::geteuid().is_root() {
        if sandbox.level == SandboxLevel::Full {
            ready = with_step("its folders", prepare_mounts(&sandbox))?;
        }
        with_step("its user", syscalls::switch_user(idmapped_mount::NOBODY_UID))?;
        // Changing the user hides /proc/self from the process itself.
        let seen = rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable);
        with_step("its user", seen)?;
    }
    let user = OuterIds {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    let whole = sandbox.level == SandboxLevel::Full;
    let (scratch, made) = if whole {
        (PathBuf::from("/tmp"), None)
    } else {
        let folder = with_step("its temporary folder", create_scratch_dir())?;
        (folder.clone(), Some(folder))
    };
    // The kernel counts all tasks of the user, and others of them begin meanwhile.
    let others = if whole {
        0
    } else {
        memory_usage::count_user_tasks(user.uid).saturating_add(FOREIGN_TASK_RESERVE)
    };
    let act = ExecPlan {
        request,
        spec: sandbox,
        program_fd: binary,
        stdio: streams,
        scratch_dir: scratch,
        foreign_tasks: others,
    };
    let begun =
        if whole { launch_with_init(act, ready, user) } else { launch_without_namespaces(act) };
    let (main, report, lifeline) = begun.inspect_err(|_| {
        if let Some(folder) = &made {
            let _kept = std::fs::remove_dir(folder);
        }
    })?;
    Ok(RunningSandbox {
        main_pid: main,
        is_full: whole,
        report,
        scratch: made,
        _lifeline: lifeline,
    })
}

/// Clones the sandbox's own folders while this process is still root.
fn prepare_mounts(sandbox_spec: &SandboxSpec) -> io::Result<PreparedMounts> {
    let mut ready = PreparedMounts::default();
    if let Some(path) = &sandbox_spec.work_dir {
        // If the file system does not support ID mapping, the sandbox has the access of `nobody`.
        ready.work = Some(
            idmapped_mount::clone_idmapped(path).or_else(|_| idmapped_mount::clone_plain(path))?,
        );
    }
    for path in &sandbox_spec.readable_paths {
        // Symbolic links and missing paths are left out, as for any other user.
        if path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink()) {
            ready.readable.push((path.clone(), idmapped_mount::clone_read_only(path)?));
        }
    }
    Ok(ready)
}

type LaunchedProcess = (Pid, File, OwnedFd);

fn launch_with_init(
    plan: ExecPlan,
    mounts: PreparedMounts,
    outer_ids: OuterIds,
) -> Result<LaunchedProcess, String> {
    let (heard, report) = with_step("a pipe", rustix::pipe::pipe_with(PipeFlags::CLOEXEC))?;
    let (lifeline, held) = with_step("a pipe", rustix::pipe::pipe_with(PipeFlags::CLOEXEC))?;
    let inside = InitContext { plan, mounts, status_pipe: report.into(), lifeline, outer_ids };
    // The closure owns it: dropped on this side, so that the pipes close with the init process.
    let main =
        syscalls::fork_into(syscalls::ALL_NAMESPACES, move || init_process::run_init(inside));
    let main = with_step("namespaces", main)?;
    let heard = File::from(heard);
    let line = with_step("its first process", read_status_line(&heard))?;
    let reason = match InitStatus::decode(&line) {
        Some(InitStatus::Running) => return Ok((main, heard, held)),
        Some(InitStatus::Failed(reason)) => reason,
        Some(InitStatus::Exited(_)) | None => "its first process ended".to_owned(),
    };
    let _reaped = rustix::process::waitpid(Some(main), rustix::process::WaitOptions::empty());
    Err(reason)
}

/// Starts the program with Landlock and seccomp only.
fn launch_without_namespaces(act: ExecPlan) -> Result<LaunchedProcess, String> {
    let (mut why, tell) = with_step("a pipe", io::pipe())?;
    let (lifeline, held) = with_step("a pipe", rustix::pipe::pipe_with(PipeFlags::CLOEXEC))?;
    let parent = rustix::process::getpid();
    let main = syscalls::fork_into(0, || {
        let error = if rustix::process::getppid() == Some(parent) {
            exec_setup::exec_program(&act)
        } else {
            String::from("its supervisor has ended")
        };
        let _told = (&tell).write_all(error.as_bytes());
    });
    let main = with_step("a process", main)?;
    drop((tell, lifeline, act));
    let mut text = String::new();
    with_step("a pipe", why.read_to_string(&mut text))?;
    if text.is_empty() {
        return Ok((main, File::from(OwnedFd::from(why)), held));
    }
    let _reaped = rustix::process::waitpid(Some(main), rustix::process::WaitOptions::empty());
    Err(text)
}

fn read_status_line(mut from: &File) -> io::Result<String> {
    let mut text = Vec::new();
    let mut byte = [0];
    while from.read(&mut byte)? == 1 && byte != *b"\n" && (text.len() as u64) < MAX_STATUS_LINE {
        text.extend(byte);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn open_program(program: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, program, flags, Mode::empty())?)
}

/// Creates a private folder with an unguessable name. Fails if it exists.
fn create_scratch_dir() -> io::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("toolkeep-{}", random_suffix()?));
    rustix::fs::mkdirat(CWD, &folder, Mode::RWXU)?;
    Ok(folder)
}

/// Returns 16 random hexadecimal digits for a name that nobody can guess.
pub(super) fn random_suffix() -> io::Result<String> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}
