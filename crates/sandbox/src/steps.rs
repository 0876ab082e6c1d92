//! The last steps before exec in a sandbox: resource limits, privileges, Landlock, seccomp.

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, Signal};

use super::{Cage, Tier, fence, filter, sys};
use crate::process::wire::Order;

/// Everything that a caged process becomes.
pub(super) struct Act {
    pub(super) order: Order,
    pub(super) cage: Cage,
    /// This program's own file, where that is what runs.
    pub(super) binary: Option<OwnedFd>,
    pub(super) streams: [OwnedFd; 3],
    /// The folder for passing things.
    pub(super) scratch: PathBuf,
    /// Tasks of the same user that are not the cage's.
    pub(super) others: u64,
}

/// Becomes the program. Comes back only with what went wrong: the step, and why.
pub(super) fn become_program(act: &Act) -> String {
    match steps(act) {
        Ok(error) => format!("its program: {error}"),
        Err(why) => why,
    }
}

fn told<T, E: std::fmt::Display>(step: &str, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| format!("{step}: {error}"))
}

fn steps(act: &Act) -> Result<std::io::Error, String> {
    let [stdin, stdout, stderr] = &act.streams;
    told("its streams", rustix::stdio::dup2_stdin(stdin))?;
    told("its streams", rustix::stdio::dup2_stdout(stdout))?;
    told("its streams", rustix::stdio::dup2_stderr(stderr))?;
    told("its descriptors", sys::close_by_exec())?;
    sys::plain_signals();
    if let Some(cwd) = &act.order.cwd {
        told("its working directory", rustix::process::chdir(cwd.as_os_str()))?;
    }
    told("its limits", limits(act))?;
    if act.cage.tier == Tier::Fenced {
        told("its session", rustix::process::setsid())?;
        told("its rights", sys::drop_capabilities())?;
        told("its rights", rustix::thread::set_no_new_privs(true))?;
        told("its parent", rustix::process::set_parent_process_death_signal(Some(Signal::KILL)))?;
    }
    let binary = act.binary.as_ref().map(|binary| binary.as_fd());
    told(
        "landlock",
        fence::fence(&fence::Places { cage: &act.cage, scratch: &act.scratch, binary }),
    )?;
    let (path, args, env) = texts(act)?;
    told("seccomp", filter::refuse(act.cage.tier))?;
    // Last: this process may be larger than the program will be.
    let memory = Some(act.cage.share.memory);
    let limit = Rlimit { current: memory, maximum: memory };
    told("its limits", rustix::process::setrlimit(Resource::As, limit))?;
    Ok(sys::execute(binary.ok_or(path.as_c_str()), &args, &env))
}

fn limits(act: &Act) -> rustix::io::Result<()> {
    let share = &act.cage.share;
    let fixed = |most: u64| Rlimit { current: Some(most), maximum: Some(most) };
    let patient = Rlimit { current: Some(share.cpu), maximum: Some(share.cpu + 1) };
    rustix::process::setrlimit(Resource::Cpu, patient)?;
    rustix::process::setrlimit(Resource::Core, fixed(0))?;
    rustix::process::setrlimit(Resource::Fsize, fixed(share.file))?;
    rustix::process::setrlimit(Resource::Nofile, fixed(share.descriptors))?;
    rustix::process::setrlimit(Resource::Stack, fixed(8 << 20))?;
    rustix::process::setrlimit(Resource::Memlock, fixed(64 << 10))?;
    rustix::process::setrlimit(Resource::Nproc, fixed(share.processes + act.others))
}

type Texts = (CString, Vec<CString>, Vec<CString>);

fn texts(act: &Act) -> Result<Texts, String> {
    let text = |word: &OsString| {
        CString::new(word.clone().into_vec()).map_err(|_| "a NUL byte in the order".to_owned())
    };
    let order = &act.order;
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
        pair.push(&act.scratch);
        env.push(text(&pair)?);
    }
    Ok((path, args?, env))
}
