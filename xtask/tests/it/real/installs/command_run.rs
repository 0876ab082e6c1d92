//! Commands of the tests: run to their end, with both streams kept.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Result of a command.
#[derive(Debug)]
pub(crate) struct CommandRun {
    pub(crate) is_success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandRun {
    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn run(command: &mut Command) -> Self {
        let name = command.get_program().display().to_string();
        let ended = command.stdin(Stdio::null()).output();
        let ended = ended.unwrap_or_else(|error| panic!("`{name}` does not start: {error}"));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            is_success: ended.status.success(),
            stdout: text(ended.stdout),
            stderr: text(ended.stderr),
        }
    }

    /// Runs a command that must succeed and returns its standard output.
    #[track_caller]
    pub(crate) fn expect_success(command: &mut Command) -> String {
        let run = Self::run(command);
        assert!(run.is_success, "{command:?}\n{}\n{}", run.stdout, run.stderr);
        run.stdout
    }
}

/// Creates a command without the variables of Toolkeep and of Python environments.
pub(crate) fn clean_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in
        ["CONFIG", "DATA", "URL", "KEY", "LISTEN", "LOG", "BINARY", "INSTALL_DIR", "BASE_URL"]
    {
        command.env_remove(format!("TOOLKEEP_{name}"));
    }
    command.env_remove("VIRTUAL_ENV").env_remove("PYTHONPATH").env_remove("NODE_OPTIONS");
    command
}
