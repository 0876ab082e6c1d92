//! Child processes, and the cage around them: a process that sees a few folders, has no net, no rights
//! and a bounded share of the machine, and ends with everything that descends from it.
//!
//! The cage is made by the supervisor of [`process`](process), between fork and exec, in the order
//! of `docs/design/013-cage.md`. Nothing here makes a cage weaker than was asked for: where a layer is
//! refused by the kernel the child does not start, and the error names the layer.

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

/// How much of the cage there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Landlock and seccomp only: the kernel lets nobody without rights make namespaces. Processes of
    /// the same user outside are seen, though not touched, and the tree is killed by walking it.
    Fenced,
    /// All of it.
    Whole,
}

impl Tier {
    /// In one word, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fenced => "fenced",
            Self::Whole => "whole",
        }
    }
}

/// What a caged process may use of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Seconds of processor time, of each process.
    pub cpu: u64,
    /// Bytes of address space, of each process.
    pub memory: u64,
    /// Bytes in memory of all processes together; looked at every 50 ms, only in a whole cage.
    pub together: u64,
    /// Bytes of one file.
    pub file: u64,
    /// Bytes of the temporary folder, in a whole cage.
    pub scratch: u64,
    /// Processes and threads at once.
    pub processes: u64,
    /// Open descriptors, of each process.
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

/// The cage that a child is to run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cage {
    /// How much of it. What is not there is not replaced by less: the child does not start.
    pub tier: Tier,
    /// The one folder that may be written to, absolute and without links; it keeps its path inside.
    pub work: Option<PathBuf>,
    /// Folders beside the system's programs that may be read, absolute.
    pub readable: Vec<PathBuf>,
    /// Whether what runs is this very binary; the command is then only its name.
    pub this_binary: bool,
    /// Whether the program is one that the cage does not see: it is opened before the cage is made, and
    /// nothing beside it is there.
    pub from_outside: bool,
    /// Its share of the machine.
    pub share: Share,
}

impl Cage {
    /// Without a folder, with the usual share.
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

    /// With `folder` to work in.
    #[must_use]
    pub fn working_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.work = Some(folder.into());
        self
    }

    /// What is wrong with it: the field, and what.
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

    /// For the supervisor: the numbers, the working folder or nothing, and the readable ones.
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

    /// What [`words`](Self::words) meant; `None` where it is not that.
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
