//! Child processes and their sandbox: a process with access to a few folders, no network, no
//! privileges and resource limits. It ends together with all its descendants.
//!
//! The supervisor of [`process`](process) creates the sandbox between fork and exec, in the order
//! of `docs/design/013-cage.md`. The isolation is never weaker than requested. If the kernel
//! refuses a layer, the child does not start, and the error names the layer.

mod begin;
mod fence;
mod filter;
mod held;
mod init;
mod probe;
pub mod process;
mod ration;
mod steps;
mod sys;
mod view;
mod weigh;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

pub use filter::{narrow, narrow_to_reading};
pub use probe::{Found, PROBE, Standing, Trial, probe, standing, try_out};
pub use ration::{Rationed, TOO_MUCH, ration};

pub(crate) use begin::{Begun, begin};

/// Strength of the isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Landlock and seccomp only, for kernels that do not allow unprivileged user namespaces. The
    /// child can see, but not signal, other processes of its user, and its tree is killed process
    /// by process.
    Fenced,
    /// Namespaces, Landlock and seccomp.
    Whole,
}

impl Tier {
    /// Returns the name of the level in configuration and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fenced => "fenced",
            Self::Whole => "whole",
        }
    }
}

/// Resource limits of a sandboxed process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// CPU time limit of each process, in seconds.
    pub cpu: u64,
    /// Address space limit of each process, in bytes.
    pub memory: u64,
    /// Memory limit of all processes together, in bytes. Checked every 50 ms; enforced in a full
    /// sandbox only.
    pub together: u64,
    /// Largest file, in bytes.
    pub file: u64,
    /// Size of the temporary folder in bytes, in a full sandbox.
    pub scratch: u64,
    /// Largest number of processes and threads.
    pub processes: u64,
    /// Largest number of open descriptors of each process.
    pub descriptors: u64,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            cpu: 60,
            memory: 4 << 30,
            together: 1 << 30,
            file: 256 << 20,
            scratch: 64 << 20,
            processes: 64,
            descriptors: 64,
        }
    }
}

/// Specification of the sandbox that a child runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cage {
    /// Isolation level. If it is not available, the child does not start.
    pub tier: Tier,
    /// The only writable folder, absolute and without links; it keeps its path inside.
    pub work: Option<PathBuf>,
    /// Readable folders in addition to the system's programs, absolute.
    pub readable: Vec<PathBuf>,
    /// Whether this binary runs; the command is then only its name.
    pub this_binary: bool,
    /// Whether the program is outside the sandbox's file system. It is opened before the sandbox is
    /// created, so only this file is available inside.
    pub from_outside: bool,
    /// Resource limits.
    pub share: Share,
}

impl Cage {
    /// Creates a specification without folders and with default limits.
    pub fn new(tier: Tier) -> Self {
        Self {
            tier,
            work: None,
            readable: Vec::new(),
            this_binary: false,
            from_outside: false,
            share: Share::default(),
        }
    }

    /// Sets the writable working folder.
    #[must_use]
    pub fn working_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.work = Some(folder.into());
        self
    }

    /// Validates the specification; returns the invalid field and the reason.
    pub(crate) fn fault(&self, command: &str) -> Option<(&'static str, String)> {
        if !self.this_binary && !command.starts_with('/') {
            return Some((
                "command",
                "must be an absolute path where it is run in a cage".to_owned(),
            ));
        }
        let bad = |path: &Path| !path.is_absolute() || path.as_os_str().as_bytes().contains(&0);
        let fault = |path: &Path| {
            let shown = path.display();
            ("cage", format!("has a folder that is not an absolute path: `{shown}`"))
        };
        self.work.iter().chain(&self.readable).find(|path| bad(path)).map(|path| fault(path))
    }

    /// Encodes the specification for the supervisor: numbers, working folder (may be empty),
    /// readable folders.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let share = &self.share;
        let numbers = [
            u64::from(self.tier == Tier::Whole),
            u64::from(self.this_binary),
            u64::from(self.from_outside),
            share.cpu,
            share.memory,
            share.together,
            share.file,
            share.scratch,
            share.processes,
            share.descriptors,
        ];
        let mut words: Vec<OsString> =
            numbers.iter().map(|number| number.to_string().into()).collect();
        words.push(self.work.clone().unwrap_or_default().into());
        words.extend(self.readable.iter().map(|path| path.clone().into()));
        words
    }

    /// Decodes the output of [`words`](Self::words); `None` if it is malformed.
    pub(crate) fn of_words(words: Vec<OsString>) -> Option<Self> {
        let mut words = words.into_iter();
        let mut number = || words.next()?.to_str()?.parse::<u64>().ok();
        let (whole, this_binary, from_outside) = (number()? == 1, number()? == 1, number()? == 1);
        let share = Share {
            cpu: number()?,
            memory: number()?,
            together: number()?,
            file: number()?,
            scratch: number()?,
            processes: number()?,
            descriptors: number()?,
        };
        let work = words.next()?;
        Some(Self {
            tier: if whole { Tier::Whole } else { Tier::Fenced },
            work: (!work.is_empty()).then(|| PathBuf::from(OsString::from_vec(work.into_vec()))),
            readable: words.map(PathBuf::from).collect(),
            this_binary,
            from_outside,
            share,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cage_comes_back_as_it_was() {
        let mut cage = Cage::new(Tier::Whole).working_in("/w");
        cage.readable = vec!["/opt/x".into(), "/nix".into()];
        cage.this_binary = true;
        assert_eq!(Cage::of_words(cage.words()), Some(cage.clone()));
        cage.from_outside = true;
        assert_eq!(Cage::of_words(cage.words()), Some(cage.clone()));
        cage.work = None;
        assert_eq!(Cage::of_words(cage.words()), Some(cage.clone()));
        assert_eq!(Cage::of_words(cage.words()[..4].to_vec()), None);
    }

    #[test]
    fn what_cannot_be_caged_is_named() {
        let cage = Cage::new(Tier::Whole).working_in("here");
        assert_eq!(cage.fault("sh").unwrap().0, "command");
        let (field, what) = cage.fault("/bin/sh").unwrap();
        assert_eq!((field, what.contains("`here`")), ("cage", true));
        assert_eq!(Cage::new(Tier::Fenced).fault("/bin/sh"), None);
    }
}
