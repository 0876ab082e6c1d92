//! The error of a command, and the list of exit codes.

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;
use tool::{Code, Problem};

use super::ui::clean;
use super::wiring::Review;
use config::Faults;

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Done,
    /// The command failed: a tool failed, the configuration has errors, or the record is damaged.
    Failed,
    /// The command line is invalid.
    Usage,
    /// The object does not exist for this key, or the key lacks a right.
    Refused,
    /// No server could be reached or started.
    NoServer,
}

impl Exit {
    /// All exit statuses with their meaning, for the reference.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Done, "done"),
        (Self::Failed, "failed: the tool, the configuration or the record is at fault"),
        (Self::Usage, "the command line is wrong"),
        (Self::Refused, "there is no such thing for this key, or the key may not"),
        (Self::NoServer, "no server could be reached or started"),
    ];

    /// The numeric exit code.
    pub const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::NoServer => 4,
        }
    }

    /// The exit status for an error code of the server.
    const fn of(code: Code) -> Self {
        match code {
            Code::UnknownTool
            | Code::NotFound
            | Code::Denied
            | Code::ApprovalRequired
            | Code::ApprovalDenied
            | Code::ApprovalExpired
            | Code::ApprovalVoid
            | Code::Unauthenticated
            | Code::Forbidden
            | Code::ForbiddenOrigin => Self::Refused,
            Code::ShuttingDown => Self::NoServer,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// The error of a failed command: the server's error envelope, or one like it.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Failure(Box<Told>);

#[derive(Debug, Clone, Serialize)]
struct Told {
    #[serde(skip)]
    exit: Exit,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    faults: Option<Faults>,
    /// Sources and tools that a server would omit besides the errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<Problem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Problem>,
}

impl Failure {
    /// Creates an error with an exit status and a message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        let message = message.into();
        let (code, fix, call_id, faults) = (None, None, None, None);
        let (left_out, warnings) = (Vec::new(), Vec::new());
        Self(Box::new(Told { exit, code, message, fix, call_id, faults, left_out, warnings }))
    }

    /// Creates an error from the server's error code.
    pub fn of_code(code: &str, message: impl Into<String>) -> Self {
        // A newer server may have codes that this program does not know.
        let exit = code.parse::<Code>().map_or(Exit::Failed, Exit::of);
        let mut failure = Self::new(exit, message);
        failure.0.code = Some(code.to_owned());
        failure
    }

    /// Creates an error from configuration errors.
    pub fn of_faults(faults: Faults) -> Self {
        Self::of_review(faults, Review::default())
    }

    /// Creates an error from configuration errors and the findings of a review.
    pub fn of_review(faults: Faults, review: Review) -> Self {
        let Review { left_out, warnings } = review;
        let count = faults.0.len() + left_out.len();
        let (count, word) = if count == 0 { (warnings.len(), "warning") } else { (count, "fault") };
        let message = format!("{count} {} in the configuration", plural(count, word));
        let mut failure = Self::of_code(Code::InvalidConfig.as_str(), message);
        let told = failure.0.as_mut();
        (told.faults, told.left_out, told.warnings) = (Some(faults), left_out, warnings);
        failure
    }

    /// Adds advice on how to fix the error.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.0.fix = Some(fix.into());
        self
    }

    /// Adds the id of the failed call.
    #[must_use]
    pub(crate) fn call(mut self, id: Option<&str>) -> Self {
        self.0.call_id = id.map(str::to_owned);
        self
    }

    /// Whether the error has this code and no advice yet.
    pub fn is_bare(&self, code: Code) -> bool {
        self.0.fix.is_none() && self.0.code.as_deref() == Some(code.as_str())
    }

    /// The exit status of the command.
    pub fn exit(&self) -> Exit {
        self.0.exit
    }

    /// The configuration errors, if the configuration is invalid.
    pub fn faults(&self) -> Option<&Faults> {
        self.0.faults.as_ref()
    }

    /// Renders all configuration errors for people.
    pub(crate) fn details(&self) -> Option<String> {
        let Told { faults, left_out, warnings, .. } = self.0.as_ref();
        let mut parts: Vec<_> = faults.as_ref()?.0.iter().map(ToString::to_string).collect();
        parts.extend(left_out.iter().map(|problem| paragraph("", problem)));
        parts.extend(warnings.iter().map(|problem| paragraph("warning: ", problem)));
        Some(parts.join("\n\n"))
    }

    /// Renders the message with code, call id and advice for people.
    pub fn text(&self) -> String {
        let Told { code, message, fix, call_id, .. } = self.0.as_ref();
        let word = code.as_deref().unwrap_or_default();
        let code = code.as_ref().map(|code| format!("[{code}]")).unwrap_or_default();
        let call = call_id.as_ref().map(|call| format!("\n  call {call}")).unwrap_or_default();
        let fix = match (fix, code.is_empty()) {
            (Some(fix), _) => format!("\n  = {fix}"),
            (None, true) => String::new(),
            (None, false) => format!("\n  = `toolkeep error {word}` tells more"),
        };
        format!("error{code}: {message}{call}{fix}")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Failure {}

/// Formats a problem, with its advice on a separate line.
pub fn paragraph(before: &str, problem: &Problem) -> String {
    let Problem { place, message, fix } = problem;
    let fix = fix.as_ref().map(|fix| format!("\n  = {fix}")).unwrap_or_default();
    clean(&format!("{before}{place}: {message}{fix}"))
}

/// Returns the word in singular or plural form.
pub fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
