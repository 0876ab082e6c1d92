//! Sandboxed child processes: access to a few folders, no network, no privileges, resource limits.
//! Each process ends together with all its descendants.
//!
//! The supervisor of [`process`] creates the sandbox between fork and exec, in the order
//! of `docs/design/sandbox.md`. The isolation is never weaker than requested. If the kernel
//! refuses a layer, the child does not start, and the error names the layer.

mod exec_setup;
mod idmapped_mount;
mod init_process;
mod init_status;
mod landlock_rules;
mod launch;
mod memory_limit_allocator;
mod memory_usage;
pub mod process;
mod root_fs;
mod seccomp_filter;
mod self_test;
mod syscalls;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

pub use memory_limit_allocator::{EXIT_MEMORY_LIMIT, LimitedAllocator, start_counting};
pub use seccomp_filter::{restrict_to_computing, restrict_to_reading};
pub use self_test::{
    EscapeAttempt, SELF_TEST_COMMAND, SandboxSupport, SelfTestReport, detect_support,
    run_escape_attempts, run_self_test,
};

pub(crate) use init_status::ExitCause;
pub(crate) use launch::{RunningSandbox, launch_sandbox};

/// Strength of the isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxLevel {
    /// Landlock and seccomp only, for kernels that do not allow unprivileged user namespaces. The
    /// child can see, but not signal, other processes of its user, and its tree is killed process
    /// by process.
    NoNamespaces,
    /// Namespaces, Landlock and seccomp.
    Full,
}

impl SandboxLevel {
    /// Returns the name of the level in configuration and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoNamespaces => "fenced",
            Self::Full => "whole",
        }
    }
}

/// Resource limits of a sandboxed process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLimits {
    /// CPU time limit of each process, in seconds.
    pub cpu_seconds: u64,
    /// Address space limit of each process, in bytes.
    pub address_space_bytes: u64,
    /// Memory limit of all processes together, in bytes. Checked every 50 ms; enforced in a full
    /// sandbox only.
    pub total_memory_bytes: u64,
    /// Largest file, in bytes.
    pub file_bytes: u64,
    /// Size of the temporary folder in bytes, in a full sandbox.
    pub scratch_bytes: u64,
    /// Largest number of processes and threads.
    pub max_tasks: u64,
    /// Largest number of open descriptors of each process.
    pub max_descriptors: u64,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            cpu_seconds: 60,
            address_space_bytes: 4 << 30,
            total_memory_bytes: 1 << 30,
            file_bytes: 256 << 20,
            scratch_bytes: 64 << 20,
            max_tasks: 64,
            max_descriptors: 64,
        }
    }
}

/// Place of a sandboxed program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramSource {
    /// A file that is available in the sandbox.
    InSandbox,
    /// This binary; the command is then only its name.
    OwnBinary,
    /// A file outside the sandbox's file system. It is opened before the sandbox is created, so only
    /// this file is available inside.
    OpenedOutside,
}

/// Specification of the sandbox that a child runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// Isolation level. If it is not available, the child does not start.
    pub level: SandboxLevel,
    /// The only writable folder, absolute and without links; it keeps its path inside.
    pub work_dir: Option<PathBuf>,
    /// Readable folders in addition to the system's programs, absolute.
    pub readable_paths: Vec<PathBuf>,
    /// Place of the program that runs.
    pub program: ProgramSource,
    /// Resource limits.
    pub limits: ResourceLimits,
}

impl SandboxSpec {
    /// Creates a specification without folders and with default limits.
    pub fn new(level: SandboxLevel) -> Self {
        Self {
            level,
            work_dir: None,
            readable_paths: Vec::new(),
            program: ProgramSource::InSandbox,
            limits: ResourceLimits::default(),
        }
    }

    /// Sets the writable working folder.
    #[must_use]
    pub fn with_work_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.work_dir = Some(folder.into());
        self
    }

    /// Validates the specification; returns the invalid field and the reason.
    pub(crate) fn find_fault(&self, command: &str) -> Option<(&'static str, String)> {
        if self.program != ProgramSource::OwnBinary && !command.starts_with('/') {
            return Some((
                "command",
                "must be an absolute path if it runs in a sandbox".to_owned(),
            ));
        }
        let bad = |path: &Path| !path.is_absolute() || path.as_os_str().as_bytes().contains(&0);
        let fault = |path: &Path| {
            let shown = path.display();
            ("sandbox", format!("has a folder that is not an absolute path: `{shown}`"))
        };
        self.work_dir
            .iter()
            .chain(&self.readable_paths)
            .find(|path| bad(path))
            .map(|path| fault(path))
    }

    /// Encodes the specification for the supervisor: numbers, working folder (may be empty),
    /// readable folders.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let share = &self.limits;
        let numbers = [
            u64::from(self.level == SandboxLevel::Full),
            match self.program {
                ProgramSource::InSandbox => 0,
                ProgramSource::OwnBinary => 1,
                ProgramSource::OpenedOutside => 2,
            },
            share.cpu_seconds,
            share.address_space_bytes,
            share.total_memory_bytes,
            share.file_bytes,
            share.scratch_bytes,
            share.max_tasks,
            share.max_descriptors,
        ];
        let mut words: Vec<OsString> =
            numbers.iter().map(|number| number.to_string().into()).collect();
        words.push(self.work_dir.clone().unwrap_or_default().into());
        words.extend(self.readable_paths.iter().map(|path| path.clone().into()));
        words
    }

    /// Decodes the output of [`to_args`](Self::to_args); `None` if it is malformed.
    pub(crate) fn from_args(args: Vec<OsString>) -> Option<Self> {
        let mut args = args.into_iter();
        let mut number = || args.next()?.to_str()?.parse::<u64>().ok();
        let whole = number()? == 1;
        let program = match number()? {
            0 => ProgramSource::InSandbox,
            1 => ProgramSource::OwnBinary,
            2 => ProgramSource::OpenedOutside,
            _ => return None,
        };
        let share = ResourceLimits {
            cpu_seconds: number()?,
            address_space_bytes: number()?,
            total_memory_bytes: number()?,
            file_bytes: number()?,
            scratch_bytes: number()?,
            max_tasks: number()?,
            max_descriptors: number()?,
        };
        let work = args.next()?;
        Some(Self {
            level: if whole { SandboxLevel::Full } else { SandboxLevel::NoNamespaces },
            work_dir: (!work.is_empty())
                .then(|| PathBuf::from(OsString::from_vec(work.into_vec()))),
            readable_paths: args.map(PathBuf::from).collect(),
            program,
            limits: share,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_comes_back_as_it_was() {
        let mut sandbox_spec = SandboxSpec::new(SandboxLevel::Full).with_work_dir("/w");
        sandbox_spec.readable_paths = vec!["/opt/x".into(), "/nix".into()];
        for program in
            [ProgramSource::InSandbox, ProgramSource::OwnBinary, ProgramSource::OpenedOutside]
        {
            sandbox_spec.program = program;
            assert_eq!(SandboxSpec::from_args(sandbox_spec.to_args()), Some(sandbox_spec.clone()));
        }
        sandbox_spec.work_dir = None;
        assert_eq!(SandboxSpec::from_args(sandbox_spec.to_args()), Some(sandbox_spec.clone()));
        assert_eq!(SandboxSpec::from_args(sandbox_spec.to_args()[..4].to_vec()), None);
    }

    #[test]
    fn what_cannot_be_sandboxed_is_named() {
        let sandbox_spec = SandboxSpec::new(SandboxLevel::Full).with_work_dir("here");
        assert_eq!(sandbox_spec.find_fault("sh").unwrap().0, "command");
        let (field, what) = sandbox_spec.find_fault("/bin/sh").unwrap();
        assert_eq!((field, what.contains("`here`")), ("sandbox", true));
        assert_eq!(SandboxSpec::new(SandboxLevel::NoNamespaces).find_fault("/bin/sh"), None);
    }
}
