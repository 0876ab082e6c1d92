//! Connector that starts a server as a sandboxed child process.

use std::time::Duration;

use sandbox::process::{
    ChildExit, ChildProcess, CommandSpec, OutputTail, ProcessLauncher, SpawnError,
};
use tokio_util::task::TaskTracker;
use tool::BoxFuture;
use tool::source::SourceErrorKind;

use super::pipe_connector::{ConnectionError, PipeConnection, PipeConnector, ServerProcess};
use source_layers::redaction::Redaction;
use tool::display_text::escape_and_truncate;

/// Maximum characters of the command in the location of a problem.
const MAX_COMMAND_CHARS: usize = 120;
/// Time limit for reading the rest of standard error after the child has exited.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// Starts a server from one command.
#[derive(Debug)]
pub struct StdioConnector {
    launcher: ProcessLauncher,
    command: CommandSpec,
    redaction: Redaction,
}

impl StdioConnector {
    /// Creates a connector that runs `spec` with `launcher`. Its arguments and the secrets of its
    /// environment are redacted from everything that is reported.
    pub fn new(launcher: ProcessLauncher, spec: CommandSpec) -> Self {
        let redaction = Redaction::from_command(&spec);
        Self { launcher, command: spec, redaction }
    }

    /// Declares that the arguments are not secret: for example paths that the server's author must
    /// see.
    #[must_use]
    pub fn with_plain_arguments(self) -> Self {
        Self { redaction: Redaction::from_environment(&self.command), ..self }
    }

    async fn start_process(&self) -> Result<PipeConnection, ConnectionError> {
        let mut child =
            self.launcher.spawn_child(&self.command).map_err(|error| to_start_error(&error))?;
        let _id: u32 = child.wait_started().await.map_err(|error| to_start_error(&error))?;
        let streams = (child.take_stdin(), child.take_stdout(), child.take_stderr());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(ConnectionError::new(SourceErrorKind::Unreachable, "provided no pipes"));
        };
        let tail = OutputTail::default();
        let reading = TaskTracker::new();
        drop(reading.spawn(tail.clone().drain_stream(stderr)));
        reading.close();
        let redaction = self.redaction.clone();
        let process = Box::new(ChildServerProcess {
            child,
            stderr_tail: tail,
            stderr_task: reading,
            redaction,
        });
        Ok(PipeConnection { reader: Box::new(stdout), writer: Box::new(stdin), process })
    }
}

impl PipeConnector for StdioConnector {
    fn display_address(&self) -> String {
        format!("`{}`", escape_and_truncate(&self.command.command, MAX_COMMAND_CHARS))
    }

    fn redact_text(&self, text: String) -> String {
        self.redaction.redact_diagnostic(text)
    }

    fn connect_pipes(&self) -> BoxFuture<'_, Result<PipeConnection, ConnectionError>> {
        Box::pin(self.start_process())
    }
}

fn to_start_error(error: &SpawnError) -> ConnectionError {
    ConnectionError::new(SourceErrorKind::Unreachable, error.to_string())
        .with_help("correct `command`, `args`, `env` or `cwd` of the source")
}

#[derive(Debug)]
struct ChildServerProcess {
    child: ChildProcess,
    stderr_tail: OutputTail,
    stderr_task: TaskTracker,
    redaction: Redaction,
}

impl ChildServerProcess {
    async fn wait_and_drain(&mut self) -> String {
        let how = match self.child.wait_ended().await {
            ChildExit::Code(code) => format!("exit status {code}"),
            ChildExit::Signal(number) => format!("signal {number}"),
            ChildExit::NotStarted(why) => format!("it could not be started: {why}"),
            ChildExit::SupervisorLost => "its supervisor was killed".to_owned(),
        };
        drop(tokio::time::timeout(STDERR_DRAIN_TIMEOUT, self.stderr_task.wait()).await);
        how
    }
}

impl ServerProcess for ChildServerProcess {
    fn wait_for_exit(&mut self) -> BoxFuture<'_, String> {
        Box::pin(self.wait_and_drain())
    }

    fn terminate_process(self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.child.shut_down(grace))
    }

    fn stderr_tail(&self) -> String {
        let text = self.stderr_tail.to_lossy_string();
        self.redaction.redact_diagnostic(match self.stderr_tail.first_line() {
            Some(first) => format!("{first}\n{text}"),
            None => text,
        })
    }
}
