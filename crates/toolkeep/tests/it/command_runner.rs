//! Runner for the binary's commands in a home folder of their own.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The longest anything here may take; reached only where something is broken.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A home with a data directory.
pub(crate) struct CommandHome(tempfile::TempDir);

/// Result of a command.
pub(crate) struct ProgramOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl ProgramOutput {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err))
    }
}

impl CommandHome {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.path(".local/share/toolkeep").join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn command(&self, line: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_toolkeep").as_ref(), line)
    }

    fn command_of(&self, program: &Path, line: &[&str]) -> Command {
        #[expect(
            clippy::disallowed_methods,
            reason = "the binary under test is run as people run it"
        )]
        let mut command = Command::new(program);
        command.args(line).current_dir(self.0.path()).env_clear().env("HOME", self.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, line: &[&str]) -> ProgramOutput {
        to_output(self.command(line).output().unwrap())
    }

    /// Runs another program, such as one that runs the binary.
    pub(crate) fn run_program(&self, program: impl AsRef<Path>, line: &[&str]) -> ProgramOutput {
        to_output(self.command_of(program.as_ref(), line).output().unwrap())
    }

    pub(crate) fn run_with(&self, line: &[&str], variable: (&str, &str)) -> ProgramOutput {
        to_output(self.command(line).env(variable.0, variable.1).output().unwrap())
    }

    /// Starts a command that runs until it is interrupted.
    pub(crate) fn follow(&self, line: &[&str]) -> FollowedProcess {
        let mut child = self.command(line).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        FollowedProcess { child, out }
    }

    /// Starts a server on a free port, and waits until it reports its address.
    pub(crate) fn serve(&self, flags: &[&str]) -> ServingProcess {
        let line = [&["serve", "--listen", "127.0.0.1:0", "-o", "json"], flags].concat();
        let mut child = self.command(&line).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut told = String::new();
        // The answer is one JSON value, whose last line is a brace of its own.
        while !told.ends_with("\n}\n") {
            if out.read_line(&mut told).unwrap() == 0 {
                let mut err = String::new();
                child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
                panic!("it did not start: {told}{err}");
            }
        }
        ServingProcess { child, started: serde_json::from_str(&told).unwrap() }
    }
}

fn to_output(output: std::process::Output) -> ProgramOutput {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    ProgramOutput {
        code: output.status.code().unwrap(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// A running command; dropping it kills it.
pub(crate) struct FollowedProcess {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl FollowedProcess {
    /// Sends what ctrl-c would.
    pub(crate) fn signal(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::INT).unwrap();
    }

    /// Its output.
    pub(crate) fn out(&mut self) -> &mut impl std::io::Read {
        &mut self.out
    }

    /// The next line that it writes to standard error; waits for it.
    pub(crate) fn err_line(&mut self) -> String {
        let (err, mut line) = (self.child.stderr.as_mut().unwrap(), Vec::new());
        let mut byte = [0];
        while !line.ends_with(b"\n") {
            assert_eq!(err.read(&mut byte).unwrap(), 1, "it ended");
            line.extend(byte);
        }
        String::from_utf8(line).unwrap()
    }

    /// Its next line; waits for it.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it ended");
        line
    }

    /// As ctrl-c would; the exit code.
    pub(crate) fn interrupt(mut self) -> i32 {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap().code().unwrap()
    }
}

impl FollowedProcess {
    /// As ctrl-c would; the exit code, and what it wrote to standard error.
    pub(crate) fn interrupted(mut self) -> (i32, String) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::INT).unwrap();
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code().unwrap(), err)
    }
}

impl Drop for FollowedProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A server that runs; killed where a test leaves it.
pub(crate) struct ServingProcess {
    child: Child,
    pub(crate) started: Value,
}

impl ServingProcess {
    pub(crate) fn address(&self) -> String {
        self.started["address"].as_str().unwrap().to_owned()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As a terminal or an init system would; the exit code.
    pub(crate) fn end(mut self) -> i32 {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code().unwrap()
    }

    /// As a crash would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for ServingProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Asks until it is so.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "the bound of a test, not a measure")]
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < WAIT_TIMEOUT, "not in time: {what}");
        std::thread::yield_now();
    }
}
