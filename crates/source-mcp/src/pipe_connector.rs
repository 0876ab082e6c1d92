//! Port that starts a server and opens pipes to it, and the error of a failed connection.
//!
//! The supervisor does not depend on the transport, so tests can supply their own pipes.

use std::fmt;
use std::time::Duration;

use tool::source::SourceErrorKind;
use tool::{BoxFuture, Problem, SourceError};

use super::pipe_transport::{PipeReader, PipeWriter};

/// Starts an MCP server that speaks over a pair of pipes.
pub trait PipeConnector: Send + Sync + fmt::Debug {
    /// Returns the command that is started, without its arguments, for display.
    fn display_address(&self) -> String;

    /// Redacts from `text`, received from the server, the secrets that it was given.
    fn redact_text(&self, text: String) -> String {
        text
    }

    /// Starts one server.
    ///
    /// # Errors
    /// Fails if the server cannot be started.
    fn connect_pipes(&self) -> BoxFuture<'_, Result<PipeConnection, ConnectionError>>;
}

/// Pipes to a started server.
pub struct PipeConnection {
    /// Output of the server.
    pub reader: PipeReader,
    /// Input of the server.
    pub writer: PipeWriter,
    /// Process of the server.
    pub process: Box<dyn ServerProcess>,
}

impl fmt::Debug for PipeConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialed").field("process", &self.process).finish_non_exhaustive()
    }
}

/// Running process with all its descendants. A drop ends it.
pub trait ServerProcess: Send + fmt::Debug {
    /// Resolves when the process has exited, with its status: `exit status 1`. Cancel-safe.
    fn wait_for_exit(&mut self) -> BoxFuture<'_, String>;

    /// Terminates the process, by force after `grace`. Resolves when no descendant is left.
    fn terminate_process(self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()>;

    /// Returns the first and last lines of standard error, with secrets redacted.
    fn stderr_tail(&self) -> String;
}

/// Reason why a connection failed or closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionError {
    /// Kind of the failure.
    pub kind: SourceErrorKind,
    /// Message that follows the name of the server.
    pub message: String,
    /// Fix, if one is known.
    pub help: Option<String>,
}

impl ConnectionError {
    /// Creates an error without a fix.
    pub fn new(kind: SourceErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), help: None }
    }

    /// Adds how to fix the error.
    #[must_use]
    pub fn with_help(mut self, fix: impl Into<String>) -> Self {
        self.help = Some(fix.into());
        self
    }

    /// Whether only a login is missing. This is no fault of the server and ends with the login.
    pub(super) fn needs_login(&self) -> bool {
        self.help.as_deref().is_some_and(|fix| fix.contains("`toolkeep source login "))
    }

    /// Converts the error to a problem at `location`.
    pub(super) fn to_problem(&self, location: &str) -> Problem {
        Problem {
            location: location.to_owned(),
            message: self.message.clone(),
            help: self.help.clone(),
        }
    }

    /// Converts the error to the error of a source at `location`.
    pub(super) fn to_source_error(&self, location: &str) -> SourceError {
        SourceError { kind: self.kind, problem: self.to_problem(location) }
    }
}
