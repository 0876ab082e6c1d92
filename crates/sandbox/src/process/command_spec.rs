//! The command to start: program, arguments, environment, working directory and sandbox.
//!
//! The environment is built from scratch: it contains only listed variables and those of the spec.
//! No other variable of Toolkeep's own environment reaches a child.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, SealFlags};
use tool::Secret;

use super::{SpawnError, supervisor_protocol};
use crate::SandboxSpec;
use host::descriptors;

/// Variables of Toolkeep's own environment that a child inherits unless the spec clears them: those
/// for its interpreter, home, language, time zone and certificates.
pub const INHERITED_ENV: [&str; 14] = [
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

/// Maximum bytes of command, arguments and environment together. Linux allows 2 MiB by default (a
/// quarter of the stack limit, execve(2)), and no single one above 128 KiB.
const MAX_COMMAND_BYTES: usize = 1 << 20;
/// Maximum arguments, and maximum variables.
const MAX_ARGUMENTS: usize = 4096;

/// A command with its environment and sandbox.
#[derive(Debug, Clone, Default)]
pub struct CommandSpec {
    /// Program: a path, or a name that is looked up in the child's own `PATH`. Never a shell
    /// command line.
    pub command: String,
    /// Arguments, passed unchanged.
    pub args: Vec<String>,
    /// Variables that are added to the inherited ones, or replace them.
    pub env: Vec<(String, EnvValue)>,
    /// Working directory; Toolkeep's own if absent.
    pub cwd: Option<PathBuf>,
    /// Whether the environment holds nothing but `env`, not even [`INHERITED_ENV`].
    pub clear_env: bool,
    /// Sandbox; without one the child has all the access of Toolkeep.
    pub sandbox: Option<SandboxSpec>,
}

/// Value of an environment variable.
#[derive(Debug, Clone)]
pub enum EnvValue {
    /// Value that may be shown.
    Plain(String),
    /// Value that must not be shown.
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
    fn expose_value(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Secret(secret) => secret.expose(),
        }
    }
}

fn invalid_spec(field: &'static str, what: impl Into<String>) -> SpawnError {
    SpawnError::InvalidSpec { field, what: what.into() }
}

impl CommandSpec {
    /// Encodes the spec into a sealed memory file for the supervisor: never on a command line,
    /// never on disk.
    pub(super) fn to_sealed_memfd(&self) -> Result<OwnedFd, SpawnError> {
        self.check_spec()?;
        let order = supervisor_protocol::ExecRequest {
            command: OsString::from(&self.command),
            cwd: self.cwd.clone().map(OsString::from),
            args: self.args.iter().map(OsString::from).collect(),
            env: self.build_environment(),
            sandbox_args: self.sandbox.as_ref().map(SandboxSpec::to_args).unwrap_or_default(),
            descriptors: descriptors::original_soft_limit(),
        };
        let bytes = order.encode();
        if bytes.len() > MAX_COMMAND_BYTES {
            return Err(invalid_spec(
                "args",
                format!("and env together exceed {MAX_COMMAND_BYTES} bytes"),
            ));
        }
        write_sealed_memfd(&bytes).map_err(|error| SpawnError::SupervisorFailed(error.to_string()))
    }

    fn check_spec(&self) -> Result<(), SpawnError> {
        if self.command.is_empty() {
            return Err(invalid_spec("command", "is empty; name a program"));
        }
        if self.args.len() > MAX_ARGUMENTS || self.env.len() > MAX_ARGUMENTS {
            return Err(invalid_spec(
                "args",
                format!(
                    "or env has more than {MAX_ARGUMENTS} \
                entries"
                ),
            ));
        }
        let nul = |text: &str| text.contains('\0');
        if nul(&self.command) {
            return Err(invalid_spec("command", "contains a NUL byte"));
        }
        if let Some(place) = self.args.iter().position(|arg| nul(arg)) {
            return Err(invalid_spec(
                "args",
                format!("contains a NUL byte in argument {}", place + 1),
            ));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains('=') || nul(name) {
                return Err(invalid_spec(
                    "env",
                    format!("has a name that cannot be set: `{}`", name.escape_debug()),
                ));
            }
            if nul(value.expose_value()) {
                return Err(invalid_spec(
                    "env",
                    format!("contains a NUL byte in the value of `{name}`"),
                ));
            }
        }
        if let Some((field, what)) =
            self.sandbox.as_ref().and_then(|sandbox_spec| sandbox_spec.find_fault(&self.command))
        {
            return Err(invalid_spec(field, what));
        }
        match &self.cwd {
            Some(path) if path.as_os_str().as_bytes().contains(&0) => {
                Err(invalid_spec("cwd", "contains a NUL byte"))
            }
            _ => Ok(()),
        }
    }

    fn build_environment(&self) -> Vec<(OsString, OsString)> {
        let given = |name: &str| self.env.iter().any(|(given, _)| given == name);
        let passed: &[&str] = if self.clear_env { &[] } else { &INHERITED_ENV };
        let mut all: Vec<(OsString, OsString)> = passed
            .iter()
            .filter(|name| !given(name))
            .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)))
            .collect();
        all.extend(self.env.iter().map(|(name, value)| {
            (OsString::from(name), OsStr::new(value.expose_value()).to_owned())
        }));
        all
    }
}

fn write_sealed_memfd(bytes: &[u8]) -> std::io::Result<OwnedFd> {
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

    fn named(spec: &CommandSpec) -> Vec<String> {
        spec.build_environment().into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
    }

    #[test]
    fn only_listed_and_given_names_are_passed_on() {
        let spec =
            CommandSpec { env: vec![("MINE".to_owned(), "1".into())], ..CommandSpec::default() };
        let names = named(&spec);
        assert!(names.contains(&"PATH".to_owned()) && names.contains(&"MINE".to_owned()));
        assert!(names.iter().all(|name| name == "MINE" || INHERITED_ENV.contains(&name.as_str())));
        // The test runner sets these, so they could leak.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        assert!(!names.iter().any(|name| name.starts_with("CARGO")));
    }

    #[test]
    fn a_given_name_replaces_the_one_passed_on() {
        let spec = CommandSpec {
            env: vec![("PATH".to_owned(), "/nowhere".into())],
            ..CommandSpec::default()
        };
        let paths: Vec<_> =
            spec.build_environment().into_iter().filter(|(name, _)| name == "PATH").collect();
        assert_eq!(paths, [("PATH".into(), "/nowhere".into())]);
    }

    #[test]
    fn cleared_means_nothing_but_the_given() {
        let spec = CommandSpec {
            clear_env: true,
            env: vec![("A".to_owned(), "1".into())],
            ..CommandSpec::default()
        };
        assert_eq!(named(&spec), ["A"]);
    }

    #[test]
    fn what_cannot_be_run_is_named_by_field() {
        let spec = |command: &str, arg: &str, name: &str, value: &str| CommandSpec {
            command: command.to_owned(),
            args: vec![arg.to_owned()],
            env: vec![(name.to_owned(), value.into())],
            ..CommandSpec::default()
        };
        for (bad, text) in [
            (spec("", "a", "N", "v"), "command is empty; name a program"),
            (spec("a\0b", "a", "N", "v"), "command contains a NUL byte"),
            (spec("a", "a\0", "N", "v"), "args contains a NUL byte in argument 1"),
            (spec("a", "a", "N=M", "v"), "env has a name that cannot be set: `N=M`"),
            (spec("a", "a", "", "v"), "env has a name that cannot be set: ``"),
            (spec("a", "a", "N", "v\0"), "env contains a NUL byte in the value of `N`"),
            (
                spec("a", &"x".repeat(MAX_COMMAND_BYTES), "N", "v"),
                "args and env together exceed 1048576 bytes",
            ),
        ] {
            assert_eq!(bad.to_sealed_memfd().unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let spec = CommandSpec {
            env: vec![("TOKEN".to_owned(), Secret::new("hunter2").into())],
            ..CommandSpec::default()
        };
        assert!(!format!("{spec:?}").contains("hunter2"));
    }
}
