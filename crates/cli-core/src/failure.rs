//! Why a command did not do what was asked, and the exit codes: one list, here.

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;
use tool::{Code, Problem};

use super::ui::clean;
use super::wiring::Review;
use config::Faults;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked.
    Done,
    /// It did not: the tool failed, the file has faults, the record is damaged.
    Failed,
    /// The command line itself is wrong.
    Usage,
    /// There is no such thing for this key, or the key may not.
    Refused,
    /// No server could be reached or started.
    NoServer,
}

impl Exit {
    /// All of them, with what they mean; for the reference.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Done, "done"),
        (Self::Failed, "failed: the tool, the configuration or the record is at fault"),
        (Self::Usage, "the command line is wrong"),
        (Self::Refused, "there is no such thing for this key, or the key may not"),
        (Self::NoServer, "no server could be reached or started"),
    ];

    /// The number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::NoServer => 4,
        }
    }

    /// The exit that goes with an error of the server.
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

/// What is told when a command fails: the server's error envelope, or one like it.
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
    /// What a server would leave out beside the faults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<Problem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Problem>,
}

impl Failure {
    /// With an exit and words.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        let message = message.into();
        let (code, fix, call_id, faults) = (None, None, None, None);
        let (left_out, warnings) = (Vec::new(), Vec::new());
        Self(Box::new(Told { exit, code, message, fix, call_id, faults, left_out, warnings }))
    }

    /// The server's error.
    pub fn of_code(code: &str, message: impl Into<String>) -> Self {
        // A newer server may have codes that this program does not know.
        let exit = code.parse::<Code>().map_or(Exit::Failed, Exit::of);
        let mut failure = Self::new(exit, message);
        failure.0.code = Some(code.to_owned());
        failure
    }

    /// Faults of the configuration.
    pub fn of_faults(faults: Faults) -> Self {
        Self::of_review(faults, Review::default())
    }

    /// Faults of the configuration, with what a server would say of the rest of it.
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

    /// Adds what to do.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.0.fix = Some(fix.into());
        self
    }

    /// Names the call that failed.
    #[must_use]
    pub(crate) fn call(mut self, id: Option<&str>) -> Self {
        self.0.call_id = id.map(str::to_owned);
        self
    }

    /// Whether it is the server's error of this code, and nobody has said yet what to do.
    pub fn is_bare(&self, code: Code) -> bool {
        self.0.fix.is_none() && self.0.code.as_deref() == Some(code.as_str())
    }

    /// The exit.
    pub fn exit(&self) -> Exit {
        self.0.exit
    }

    /// The faults, where it is the configuration that failed.
    pub fn faults(&self) -> Option<&Faults> {
        self.0.faults.as_ref()
    }

    /// All that is wrong, for people, where it is the configuration that failed.
    pub(crate) fn details(&self) -> Option<String> {
        let Told { faults, left_out, warnings, .. } = self.0.as_ref();
        let mut parts: Vec<_> = faults.as_ref()?.0.iter().map(ToString::to_string).collect();
        parts.extend(left_out.iter().map(|problem| paragraph("", problem)));
        parts.extend(warnings.iter().map(|problem| paragraph("warning: ", problem)));
        Some(parts.join("\n\n"))
    }

    /// The message and what belongs to it, for people.
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

/// A problem, with what to do on a line of its own.
pub fn paragraph(before: &str, problem: &Problem) -> String {
    let Problem { place, message, fix } = problem;
    let fix = fix.as_ref().map(|fix| format!("\n  = {fix}")).unwrap_or_default();
    clean(&format!("{before}{place}: {message}{fix}"))
}

/// One fault, two faults.
pub fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
