//! The last steps before exec in a sandbox: resource limits, privileges, Landlock, seccomp.

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, Signal};

use super::{SandboxLevel, SandboxSpec, landlock_rules, seccomp_filter, syscalls};
use crate::process::supervisor_protocol::ExecRequest;

/// Everything that is needed to execute a sandboxed program.
pub(super) struct ExecPlan {
    pub(super) request: ExecRequest,
    pub(super) spec: SandboxSpec,
    /// This program's own file, if it is the one to run.
    pub(super) program_fd: Option<OwnedFd>,
    pub(super) stdio: [OwnedFd; 3],
    /// Temporary folder of the sandbox.
    pub(super) scratch_dir: PathBuf,
    /// Tasks of the same user outside the sandbox.
    pub(super) foreign_tasks: u64,
}

/// Executes the program. Returns only on failure, with the step and the reason.
pub(super) fn exec_program(plan: &ExecPlan) -> String {
    match setup_and_exec(plan) {
        Ok(error) => format!("its program: {error}"),
        Err(why) => why,
    }
}

/// Puts the name of the refused step before its error.
pub(super) fn with_step<T, E: std::fmt::Display>(
    step: &str,
    result: Result<T, E>,
) -> Result<T, String> {
    result.map_err(|error| format!("{step}: {error}"))
}

fn setup_and_exec(act: &ExecPlan) -> Result<std::io::Error, String> {
    let [stdin, stdout, stderr] = &act.stdio;
    with_step("its streams", rustix::stdio::dup2_stdin(stdin))?;
    with_step("its streams", rustix::stdio::dup2_stdout(stdout))?;
    with_step("its streams", rustix::stdio::dup2_stderr(stderr))?;
    with_step("its descriptors", syscalls::set_cloexec_all())?;
    syscalls::reset_signals();
    if let Some(cwd) = &act.request.cwd {
        with_step("its working directory", rustix::process::chdir(cwd.as_os_str()))?;
    }
    with_step("its limits", set_resource_limits(act))?;
    if act.spec.level == SandboxLevel::NoNamespaces {
        with_step("its session", rustix::process::setsid())?;
        with_step("its rights", syscalls::drop_capabilities())?;
        with_step("its rights", rustix::thread::set_no_new_privs(true))?;
        with_step(
            "its parent",
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL)),
        )?;
    }
    let binary = act.program_fd.as_ref().map(|binary| binary.as_fd());
    with_step(
        "landlock",
        landlock_rules::restrict_process(&landlock_rules::LandlockScope {
            sandbox_spec: &act.spec,
            scratch: &act.scratch_dir,
            binary,
        }),
    )?;
    let (path, args, env) = to_c_strings(act)?;
    with_step("seccomp", seccomp_filter::install_deny_filter(act.spec.level))?;
    // Last: this process may be larger than the program will be.
    let memory = Some(act.spec.limits.address_space_bytes);
    let limit = Rlimit { current: memory, maximum: memory };
    with_step("its limits", rustix::process::setrlimit(Resource::As, limit))?;
    Ok(syscalls::exec_file(binary.ok_or(path.as_c_str()), &args, &env))
}

fn set_resource_limits(act: &ExecPlan) -> rustix::io::Result<()> {
    let share = &act.spec.limits;
    let fixed = |most: u64| Rlimit { current: Some(most), maximum: Some(most) };
    let patient = Rlimit { current: Some(share.cpu_seconds), maximum: Some(share.cpu_seconds + 1) };
    rustix::process::setrlimit(Resource::Cpu, patient)?;
    rustix::process::setrlimit(Resource::Core, fixed(0))?;
    rustix::process::setrlimit(Resource::Fsize, fixed(share.file_bytes))?;
    rustix::process::setrlimit(Resource::Nofile, fixed(share.max_descriptors))?;
    rustix::process::setrlimit(Resource::Stack, fixed(8 << 20))?;
    rustix::process::setrlimit(Resource::Memlock, fixed(64 << 10))?;
    rustix::process::setrlimit(Resource::Nproc, fixed(share.max_tasks + act.foreign_tasks))
}

type ExecStrings = (CString, Vec<CString>, Vec<CString>);

fn to_c_strings(act: &ExecPlan) -> Result<ExecStrings, String> {
    let text = |word: &OsString| {
        CString::new(word.clone().into_vec()).map_err(|_| {
            "a NUL byte in the start \
            message"
                .to_owned()
        })
    };
    let order = &act.request;
    let path = text(&order.command)?;
    let args: Result<Vec<_>, _> =
        std::iter::once(&order.command).chain(&order.args).map(text).collect();
    let mut env = Vec::with_capacity(order.env.len() + 1);
    for (name, value) in &order.env {
        let mut pair = name.clone();
        pair.push("=");
        pair.push(value);
        env.push(text(&pair)?);
    }
    if !order.env.iter().any(|(name, _)| name == "TMPDIR") {
        let mut pair = OsString::from("TMPDIR=");
        pair.push(&act.scratch_dir);
        env.push(text(&pair)?);
    }
    Ok((path, args?, env))
}
