//! The command to start: program, arguments, environment, working directory and sandbox.
//!
//! The environment is built here from nothing: a name is in it because it is on the list or because
//! the spec gives it. What Toolkeep itself was started with never reaches a child otherwise.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, SealFlags};
use tool::Secret;

use super::{SpawnError, wire};
use crate::Cage;
use host::descriptors;

/// Names of Toolkeep's own environment that a child gets unless the spec clears it: those a program
/// needs to find its interpreter, its home, its language, its time zone and its certificates.
pub const PASSED_ON: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Most bytes of command, arguments and environment together. Linux itself allows 2 MiB by default
/// (a quarter of the stack limit, execve(2)), and no single one above 128 KiB.
const MOST_BYTES: usize = 1 << 20;
/// Most arguments, and most variables.
const MOST_ITEMS: usize = 4096;

/// A command with its environment and sandbox.
#[derive(Debug, Clone, Default)]
pub struct Spec {
    /// The program: a path, or a name that is looked up in the child's own `PATH`. Never a shell line.
    pub command: String,
    /// Its arguments, passed as they are.
    pub args: Vec<String>,
    /// Variables, added to or replacing those passed on.
    pub env: Vec<(String, EnvValue)>,
    /// The directory to start in; else Toolkeep's.
    pub cwd: Option<PathBuf>,
    /// Whether nothing but `env` is in the environment: not even [`PASSED_ON`].
    pub clear_env: bool,
    /// The cage it runs in; without one it may do what Toolkeep may.
    pub cage: Option<Cage>,
}

/// Value of an environment variable.
#[derive(Debug, Clone)]
pub enum EnvValue {
    /// One that may be seen.
    Plain(String),
    /// One that may not.
    Secret(Secret),
}

impl From<String> for EnvValue {
    fn from(text: String) -> Self {
        Self::Plain(text)
    }
}

impl From<&str> for EnvValue {
    fn from(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }
}

impl From<Secret> for EnvValue {
    fn from(secret: Secret) -> Self {
        Self::Secret(secret)
    }
}

impl EnvValue {
    fn open(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Secret(secret) => secret.open(),
        }
    }
}

fn bad(field: &'static str, what: impl Into<String>) -> SpawnError {
    SpawnError::BadSpec { field, what: what.into() }
}

impl Spec {
    /// The spec as a sealed memory file for the supervisor: never on a command line, never on disk.
    pub(super) fn sealed(&self) -> Result<OwnedFd, SpawnError> {
        self.check()?;
        let order = wire::Order {
            command: OsString::from(&self.command),
            cwd: self.cwd.clone().map(OsString::from),
            args: self.args.iter().map(OsString::from).collect(),
            env: self.environment(),
            cage: self.cage.as_ref().map(Cage::words).unwrap_or_default(),
            descriptors: descriptors::original_soft_limit(),
        };
        let bytes = order.encode();
        if bytes.len() > MOST_BYTES {
            return Err(bad("args", format!("and env are together over {MOST_BYTES} bytes")));
        }
        seal(&bytes).map_err(|error| SpawnError::Supervisor(error.to_string()))
    }

    fn check(&self) -> Result<(), SpawnError> {
        if self.command.is_empty() {
            return Err(bad("command", "is empty; give a program"));
        }
        if self.args.len() > MOST_ITEMS || self.env.len() > MOST_ITEMS {
            return Err(bad("args", format!("or env has over {MOST_ITEMS} entries")));
        }
        let nul = |text: &str| text.contains('\0');
        if nul(&self.command) {
            return Err(bad("command", "contains a NUL byte"));
        }
        if let Some(place) = self.args.iter().position(|arg| nul(arg)) {
            return Err(bad("args", format!("contains a NUL byte in argument {}", place + 1)));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains('=') || nul(name) {
                return Err(bad(
                    "env",
                    format!("has a name that cannot be set: `{}`", name.escape_debug()),
                ));
            }
            if nul(value.open()) {
                return Err(bad("env", format!("contains a NUL byte in the value of `{name}`")));
            }
        }
        if let Some((field, what)) = self.cage.as_ref().and_then(|cage| cage.fault(&self.command)) {
            return Err(bad(field, what));
        }
        match &self.cwd {
            Some(path) if path.as_os_str().as_bytes().contains(&0) => {
                Err(bad("cwd", "contains a NUL byte"))
            }
            _ => Ok(()),
        }
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let given = |name: &str| self.env.iter().any(|(given, _)| given == name);
        let passed: &[&str] = if self.clear_env { &[] } else { &PASSED_ON };
        let mut all: Vec<(OsString, OsString)> = passed
            .iter()
            .filter(|name| !given(name))
            .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)))
            .collect();
        all.extend(
            self.env
                .iter()
                .map(|(name, value)| (OsString::from(name), OsStr::new(value.open()).to_owned())),
        );
        all
    }
}

fn seal(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let memory =
        rustix::fs::memfd_create("toolkeep-spec", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(memory);
    file.write_all(bytes)?;
    file.rewind()?;
    let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, all)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(spec: &Spec) -> Vec<String> {
        spec.environment().into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
    }

    #[test]
    fn only_listed_and_given_names_are_passed_on() {
        let spec = Spec { env: vec![("MINE".to_owned(), "1".into())], ..Spec::default() };
        let names = named(&spec);
        assert!(names.contains(&"PATH".to_owned()) && names.contains(&"MINE".to_owned()));
        assert!(names.iter().all(|name| name == "MINE" || PASSED_ON.contains(&name.as_str())));
        // The test runner sets these: they are there to leak.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        assert!(!names.iter().any(|name| name.starts_with("CARGO")));
    }

    #[test]
    fn a_given_name_replaces_the_one_passed_on() {
        let spec = Spec { env: vec![("PATH".to_owned(), "/nowhere".into())], ..Spec::default() };
        let paths: Vec<_> =
            spec.environment().into_iter().filter(|(name, _)| name == "PATH").collect();
        assert_eq!(paths, [("PATH".into(), "/nowhere".into())]);
    }

    #[test]
    fn cleared_means_nothing_but_the_given() {
        let spec =
            Spec { clear_env: true, env: vec![("A".to_owned(), "1".into())], ..Spec::default() };
        assert_eq!(named(&spec), ["A"]);
    }

    #[test]
    fn what_cannot_be_run_is_named_by_field() {
        let spec = |command: &str, arg: &str, name: &str, value: &str| Spec {
            command: command.to_owned(),
            args: vec![arg.to_owned()],
            env: vec![(name.to_owned(), value.into())],
            ..Spec::default()
        };
        for (bad, text) in [
            (spec("", "a", "N", "v"), "command is empty; give a program"),
            (spec("a\0b", "a", "N", "v"), "command contains a NUL byte"),
            (spec("a", "a\0", "N", "v"), "args contains a NUL byte in argument 1"),
            (spec("a", "a", "N=M", "v"), "env has a name that cannot be set: `N=M`"),
            (spec("a", "a", "", "v"), "env has a name that cannot be set: ``"),
            (spec("a", "a", "N", "v\0"), "env contains a NUL byte in the value of `N`"),
            (
                spec("a", &"x".repeat(MOST_BYTES), "N", "v"),
                "args and env are together over 1048576 bytes",
            ),
        ] {
            assert_eq!(bad.sealed().unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let spec = Spec {
            env: vec![("TOKEN".to_owned(), Secret::new("hunter2").into())],
            ..Spec::default()
        };
        assert!(!format!("{spec:?}").contains("hunter2"));
    }
}
