//! Status lines that the init process of a full sandbox writes and the supervisor reads.

use rustix::process::{Signal, WaitStatus};

/// Status of the init process: one line when the program runs or fails to start, one at its exit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InitStatus {
    /// The program runs.
    Running,
    /// The program was not started, with the step and the reason.
    Failed(String),
    /// The program ended.
    Exited(ProgramExit),
}

/// Exit of a sandboxed program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProgramExit {
    pub(crate) cause: ExitCause,
    /// Whether its tree was killed because it exceeded its memory limit.
    pub(crate) exceeded_memory: bool,
}

/// Exit code of a program, or the signal that ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCause {
    Code(i32),
    Signal(i32),
}

impl ExitCause {
    /// Returns the cause that the system reported; SIGKILL if it reported none.
    pub(crate) fn from_status(status: Option<WaitStatus>) -> Self {
        let code = status.and_then(WaitStatus::exit_status);
        let signal = status.and_then(WaitStatus::terminating_signal);
        code.map_or_else(|| Self::Signal(signal.unwrap_or(Signal::KILL.as_raw())), Self::Code)
    }
}

impl InitStatus {
    /// Encodes the status as one line, with its line end.
    pub(super) fn encode(&self) -> String {
        match self {
            Self::Running => "running\n".to_owned(),
            Self::Failed(reason) => format!("failed {}\n", reason.replace('\n', " ")),
            Self::Exited(exit) => {
                let suffix = if exit.exceeded_memory { " memory" } else { "" };
                match exit.cause {
                    ExitCause::Code(code) => format!("code {code}{suffix}\n"),
                    ExitCause::Signal(signal) => format!("signal {signal}{suffix}\n"),
                }
            }
        }
    }

    /// Decodes a line, with or without its end; `None` if it is malformed.
    pub(super) fn decode(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n').unwrap_or(line);
        if line == "running" {
            return Some(Self::Running);
        }
        if let Some(reason) = line.strip_prefix("failed ") {
            return Some(Self::Failed(reason.to_owned()));
        }
        let mut words = line.split_ascii_whitespace();
        let (kind, number) = (words.next()?, words.next()?.parse().ok()?);
        let cause = match kind {
            "code" => ExitCause::Code(number),
            "signal" => ExitCause::Signal(number),
            _ => return None,
        };
        Some(Self::Exited(ProgramExit { cause, exceeded_memory: words.next().is_some() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_comes_back_as_it_was_and_takes_one_line() {
        let exit =
            |cause, exceeded_memory| InitStatus::Exited(ProgramExit { cause, exceeded_memory });
        for (status, line) in [
            (InitStatus::Running, "running\n"),
            (InitStatus::Failed("its rights: a b".to_owned()), "failed its rights: a b\n"),
            (exit(ExitCause::Code(3), false), "code 3\n"),
            (exit(ExitCause::Signal(9), true), "signal 9 memory\n"),
        ] {
            assert_eq!(status.encode(), line);
            assert_eq!(InitStatus::decode(line), Some(status));
        }
        assert_eq!(InitStatus::Failed("a\nb".to_owned()).encode(), "failed a b\n");
    }

    #[test]
    fn a_malformed_status_is_none() {
        for line in ["", "run", "failed", "code", "code x", "signal", "exit 1"] {
            assert_eq!(InitStatus::decode(line), None, "{line}");
        }
    }
}
