//! The error of a command, and the list of exit codes.

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;
use tool::{ErrorCode, Problem};

use super::printer::sanitize_text;
use super::server_launcher::ConfigReview;
use config::ConfigErrors;

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// The command succeeded.
    Success,
    /// The command failed: a tool failed, the configuration has errors, or the record is damaged.
    Failed,
    /// The command line is invalid.
    UsageError,
    /// The object does not exist for this key, or the key lacks a right.
    Refused,
    /// No server could be reached or started.
    ServerUnavailable,
}

impl ExitStatus {
    /// All exit statuses with their meaning, for the reference.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Success, "success"),
        (
            Self::Failed,
            "failure: a tool failed, the configuration is invalid or the record is \
                        damaged",
        ),
        (Self::UsageError, "invalid command line"),
        (Self::Refused, "not found, or the key lacks the right"),
        (Self::ServerUnavailable, "no server could be reached or started"),
    ];

    /// The numeric exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::UsageError => 2,
            Self::Refused => 3,
            Self::ServerUnavailable => 4,
        }
    }

    /// The exit status for an error code of the server.
    const fn for_error_code(code: ErrorCode) -> Self {
        match code {
            ErrorCode::UnknownTool
            | ErrorCode::NotFound
            | ErrorCode::Denied
            | ErrorCode::ApprovalRequired
            | ErrorCode::ApprovalDenied
            | ErrorCode::ApprovalExpired
            | ErrorCode::ApprovalVoid
            | ErrorCode::Unauthenticated
            | ErrorCode::Forbidden
            | ErrorCode::ForbiddenOrigin => Self::Refused,
            ErrorCode::ShuttingDown => Self::ServerUnavailable,
            _ => Self::Failed,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(exit.code())
    }
}

/// The error of a failed command: the server's error envelope, or one like it.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct CommandError(Box<ErrorEnvelope>);

#[derive(Debug, Clone, Serialize)]
struct ErrorEnvelope {
    #[serde(skip)]
    exit: ExitStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "faults")]
    config_errors: Option<ConfigErrors>,
    /// Sources and tools that a server would omit besides the errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<Problem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Problem>,
}

impl CommandError {
    /// Creates an error with an exit status and a message.
    pub fn new(exit: ExitStatus, message: impl Into<String>) -> Self {
        let message = message.into();
        let (code, fix, call_id, faults) = (None, None, None, None);
        let (left_out, warnings) = (Vec::new(), Vec::new());
        Self(Box::new(ErrorEnvelope {
            exit,
            code,
            message,
            fix,
            call_id,
            config_errors: faults,
            left_out,
            warnings,
        }))
    }

    /// Creates an error from the server's error code.
    pub fn from_error_code(code: &str, message: impl Into<String>) -> Self {
        // A newer server may have codes that this program does not know.
        let exit = code.parse::<ErrorCode>().map_or(ExitStatus::Failed, ExitStatus::for_error_code);
        let mut failure = Self::new(exit, message);
        failure.0.code = Some(code.to_owned());
        failure
    }

    /// Creates an error from configuration errors.
    pub fn from_config_errors(errors: ConfigErrors) -> Self {
        Self::from_config_review(errors, ConfigReview::default())
    }

    /// Creates an error from configuration errors and the findings of a review.
    pub fn from_config_review(errors: ConfigErrors, review: ConfigReview) -> Self {
        let ConfigReview { left_out, warnings } = review;
        let count = errors.0.len() + left_out.len();
        let (count, word) = if count == 0 { (warnings.len(), "warning") } else { (count, "error") };
        let message = format!("{count} {} in the configuration", pluralize(count, word));
        let mut failure = Self::from_error_code(ErrorCode::InvalidConfig.as_str(), message);
        let message_text = failure.0.as_mut();
        (message_text.config_errors, message_text.left_out, message_text.warnings) =
            (Some(errors), left_out, warnings);
        failure
    }

    /// Adds advice on how to fix the error.
    #[must_use]
    pub fn with_help(mut self, fix: impl Into<String>) -> Self {
        self.0.fix = Some(fix.into());
        self
    }

    /// Adds the id of the failed call.
    #[must_use]
    pub(crate) fn with_call_id(mut self, id: Option<&str>) -> Self {
        self.0.call_id = id.map(str::to_owned);
        self
    }

    /// Whether the error has this code and no advice yet.
    pub fn is_without_help(&self, code: ErrorCode) -> bool {
        self.0.fix.is_none() && self.0.code.as_deref() == Some(code.as_str())
    }

    /// The exit status of the command.
    pub fn exit_status(&self) -> ExitStatus {
        self.0.exit
    }

    /// The configuration errors, if the configuration is invalid.
    pub fn config_errors(&self) -> Option<&ConfigErrors> {
        self.0.config_errors.as_ref()
    }

    /// Renders all configuration errors for people.
    pub(crate) fn render_details(&self) -> Option<String> {
        let ErrorEnvelope { config_errors: faults, left_out, warnings, .. } = self.0.as_ref();
        let mut parts: Vec<_> = faults.as_ref()?.0.iter().map(ToString::to_string).collect();
        parts.extend(left_out.iter().map(|problem| format_problem("", problem)));
        parts.extend(warnings.iter().map(|problem| format_problem("warning: ", problem)));
        Some(parts.join("\n\n"))
    }

    /// Renders the message with code, call id and advice for people.
    pub fn render_text(&self) -> String {
        let ErrorEnvelope { code, message, fix, call_id, .. } = self.0.as_ref();
        let word = code.as_deref().unwrap_or_default();
        let code = code.as_ref().map(|code| format!("[{code}]")).unwrap_or_default();
        let call = call_id.as_ref().map(|call| format!("\n  call {call}")).unwrap_or_default();
        let fix = match (fix, code.is_empty()) {
            (Some(fix), _) => format!("\n  help: {fix}"),
            (None, true) => String::new(),
            (None, false) => format!("\n  help: run `toolkeep error {word}`"),
        };
        format!("error{code}: {message}{call}{fix}")
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for CommandError {}

/// Formats a problem, with its advice on a separate line.
pub fn format_problem(prefix: &str, problem: &Problem) -> String {
    let Problem { location: place, message, help: fix } = problem;
    let fix = fix.as_ref().map(|fix| format!("\n  help: {fix}")).unwrap_or_default();
    sanitize_text(&format!("{prefix}{place}: {message}{fix}"))
}

/// Returns the word in singular or plural form.
pub fn pluralize(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
