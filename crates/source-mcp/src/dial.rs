//! How a connection to a server begins: by a child and its pipes, or by HTTP.
//!
//! The supervision above knows neither; tests bring pipes of their own.

use std::fmt;
use std::time::Duration;

use tool::source::SourceFault;
use tool::{Boxed, Problem, SourceError};

use super::pipe::{Reader, Writer};

/// Starts something that speaks MCP over a pair of pipes.
pub trait Dial: Send + Sync + fmt::Debug {
    /// What is started, for people: the command, without its arguments.
    fn place(&self) -> String;

    /// `text` that came from what was started, without the secrets that this was given.
    fn redact(&self, text: String) -> String {
        text
    }

    /// Starts one.
    ///
    /// # Errors
    /// Where it cannot be started at all.
    fn dial(&self) -> Boxed<'_, Result<Dialed, Fault>>;
}

/// Pipes to something that was started.
pub struct Dialed {
    /// What it writes.
    pub reader: Reader,
    /// What it reads.
    pub writer: Writer,
    /// The thing itself.
    pub process: Box<dyn Process>,
}

impl fmt::Debug for Dialed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialed").field("process", &self.process).finish_non_exhaustive()
    }
}

/// Something that runs, with all that it started. Dropped, it ends.
pub trait Process: Send + fmt::Debug {
    /// Resolves when it has ended, with how: `exit status 1`. May be dropped and called again.
    fn ended(&mut self) -> Boxed<'_, String>;

    /// Ends it, by force after `grace`; resolves when nothing of it is left.
    fn kill(self: Box<Self>, grace: Duration) -> Boxed<'static, ()>;

    /// What it wrote to standard error first and last, as it wrote it, without secrets it was given.
    fn last_words(&self) -> String;
}

/// Why there is no connection, or no longer one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind.
    pub kind: SourceFault,
    /// In words, to follow the name of what was started.
    pub message: String,
    /// What to do, where that is known.
    pub fix: Option<String>,
}

impl Fault {
    /// With a message.
    pub fn new(kind: SourceFault, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), fix: None }
    }

    /// With what to do.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Whether all it wants is that a person logs in: no fault of the server, and over when that is done.
    pub(super) fn wants_login(&self) -> bool {
        self.fix.as_deref().is_some_and(|fix| fix.contains("`toolkeep source login "))
    }

    /// As a problem at `place`.
    pub(super) fn problem(&self, place: &str) -> Problem {
        Problem { place: place.to_owned(), message: self.message.clone(), fix: self.fix.clone() }
    }

    /// As what a source answers.
    pub(super) fn error(&self, place: &str) -> SourceError {
        SourceError { kind: self.kind, problem: self.problem(place) }
    }
}
