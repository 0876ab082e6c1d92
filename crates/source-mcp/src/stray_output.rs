//! Tracks server output that is no message: counts it, stores a sample and enforces a limit.
//!
//! Many servers print a banner or a log line where only messages belong. Such a server keeps
//! running. A server that prints nothing else is terminated.

use std::sync::{Arc, Mutex, PoisonError};

use tool::Problem;

use super::pipe_connector::PipeConnector;
use tool::display_text::escape_and_truncate;

/// Maximum stray lines in a row.
const MAX_LINES: usize = 1_000;
/// Maximum stray bytes in a row: a few lines of the maximum length.
const MAX_BYTES: usize = 64 << 20;
/// Maximum characters of the stored sample.
const MAX_SAMPLE_CHARS: usize = 120;

/// Decision after a stray line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StrayOutputVerdict {
    /// The server may continue.
    Tolerate,
    /// The limit is reached. Describes the output.
    Abort(String),
}

/// Stray output of one connection.
#[derive(Debug, Default)]
pub(super) struct StrayOutput {
    counters: Mutex<StrayOutputCounters>,
    /// Connector of the child process, if it is one.
    connector: Option<Arc<dyn PipeConnector>>,
}

#[derive(Debug, Default)]
struct StrayOutputCounters {
    total_lines: usize,
    first_sample: Option<String>,
    /// Since the last message.
    lines_since_message: usize,
    bytes_since_message: usize,
}

impl StrayOutput {
    /// Creates the counter for the output of a child process.
    pub(super) fn from_connector(connector: &Arc<dyn PipeConnector>) -> Self {
        Self { connector: Some(Arc::clone(connector)), ..Self::default() }
    }

    /// Resets the run, when a message arrives.
    pub(super) fn reset_run(&self) {
        let mut heard = self.lock_counters();
        heard.lines_since_message = 0;
        heard.bytes_since_message = 0;
    }

    /// Records a line that is no message.
    pub(super) fn record_line(&self, line: &[u8], reason: &str) -> StrayOutputVerdict {
        let sample = || {
            let text = String::from_utf8_lossy(line).into_owned();
            // Redacted before it is truncated: half a secret would not be found.
            let text = match &self.connector {
                Some(dial) => dial.redact_text(text),
                None => text,
            };
            format!(
                "`{}` ({})",
                escape_and_truncate(&text, MAX_SAMPLE_CHARS),
                escape_and_truncate(reason, MAX_SAMPLE_CHARS)
            )
        };
        self.count_line(line.len(), sample)
    }

    /// Records a line longer than the limit.
    pub(super) fn record_oversized(&self, bytes: usize) -> StrayOutputVerdict {
        self.count_line(bytes, || format!("a line of {bytes} bytes"))
    }

    fn count_line(&self, bytes: usize, sample: impl FnOnce() -> String) -> StrayOutputVerdict {
        let mut heard = self.lock_counters();
        heard.total_lines += 1;
        heard.lines_since_message += 1;
        heard.bytes_since_message = heard.bytes_since_message.saturating_add(bytes);
        let first = heard.first_sample.get_or_insert_with(sample).clone();
        if heard.lines_since_message > MAX_LINES || heard.bytes_since_message > MAX_BYTES {
            let (lines, bytes) = (heard.lines_since_message, heard.bytes_since_message);
            return StrayOutputVerdict::Abort(format!(
                "printed {lines} lines ({bytes} bytes) that are not MCP messages, the first {first}"
            ));
        }
        StrayOutputVerdict::Tolerate
    }

    /// Converts the output so far to a problem at `location`.
    pub(super) fn to_problem(&self, location: &str) -> Option<Problem> {
        let heard = self.lock_counters();
        let first = heard.first_sample.as_ref()?;
        let lines = heard.total_lines;
        let message = format!(
            "printed {lines} lines on standard output that are not MCP messages, the first {first}"
        );
        Some(
            Problem::new(location, message)
                .with_help("configure the server to log to standard error"),
        )
    }

    fn lock_counters(&self) -> std::sync::MutexGuard<'_, StrayOutputCounters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_LINES, StrayOutput, StrayOutputVerdict};

    #[test]
    fn a_banner_is_borne_and_shown() {
        let noise = StrayOutput::default();
        assert_eq!(noise.to_problem("x"), None);
        assert_eq!(
            noise.record_line(b"Listening\x1b[31m on stdio", "expected value"),
            StrayOutputVerdict::Tolerate
        );
        let problem = noise.to_problem("x").unwrap();
        assert!(problem.message.contains("`Listening\\u{1b}[31m on stdio`"), "{}", problem.message);
    }

    #[test]
    fn a_flood_is_not_and_a_message_between_resets_it() {
        let noise = StrayOutput::default();
        for _ in 0..MAX_LINES {
            assert_eq!(noise.record_line(b"x", "y"), StrayOutputVerdict::Tolerate);
        }
        noise.reset_run();
        for _ in 0..MAX_LINES {
            assert_eq!(noise.record_line(b"x", "y"), StrayOutputVerdict::Tolerate);
        }
        assert!(matches!(noise.record_line(b"x", "y"), StrayOutputVerdict::Abort(_)));
        assert!(matches!(
            StrayOutput::default().record_oversized(usize::MAX),
            StrayOutputVerdict::Abort(_)
        ));
    }
}
