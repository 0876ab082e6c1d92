//! What a server prints that is no message: counted, the first of it kept to be shown, and a bound.
//!
//! Many servers print a banner or a log line where only messages belong. One that does works on; one
//! that does nothing else is ended.

use std::sync::{Arc, Mutex, PoisonError};

use tool::Problem;

use super::dial::Dial;
use tool::display_text::shown;

/// Lines without one message between them.
const MOST_LINES: usize = 1_000;
/// Bytes without one message between them: a few lines at the bound of a line's length.
const MOST_BYTES: usize = 64 << 20;
/// Characters kept of the first line.
const SAMPLE: usize = 120;

/// Whether to go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Go on.
    Bear,
    /// No more; says what was heard.
    Enough(String),
}

/// The noise of one connection.
#[derive(Debug, Default)]
pub(super) struct Noise {
    heard: Mutex<Heard>,
    /// What was started, where it is a child of ours.
    dial: Option<Arc<dyn Dial>>,
}

#[derive(Debug, Default)]
struct Heard {
    lines: usize,
    first: Option<String>,
    /// Since the last message.
    row_lines: usize,
    row_bytes: usize,
}

impl Noise {
    /// Of what `dial` started.
    pub(super) fn of(dial: &Arc<dyn Dial>) -> Self {
        Self { dial: Some(Arc::clone(dial)), ..Self::default() }
    }

    /// A message came.
    pub(super) fn quiet(&self) {
        let mut heard = self.heard();
        heard.row_lines = 0;
        heard.row_bytes = 0;
    }

    /// A line that is no message.
    pub(super) fn line(&self, line: &[u8], reason: &str) -> Verdict {
        let sample = || {
            let text = String::from_utf8_lossy(line).into_owned();
            // Before it is cut: half a secret would not be found.
            let text = match &self.dial {
                Some(dial) => dial.redact(text),
                None => text,
            };
            format!("`{}` ({})", shown(&text, SAMPLE), shown(reason, SAMPLE))
        };
        self.add(line.len(), sample)
    }

    /// A line past the bound.
    pub(super) fn too_long(&self, bytes: usize) -> Verdict {
        self.add(bytes, || format!("a line of {bytes} bytes"))
    }

    fn add(&self, bytes: usize, sample: impl FnOnce() -> String) -> Verdict {
        let mut heard = self.heard();
        heard.lines += 1;
        heard.row_lines += 1;
        heard.row_bytes = heard.row_bytes.saturating_add(bytes);
        let first = heard.first.get_or_insert_with(sample).clone();
        if heard.row_lines > MOST_LINES || heard.row_bytes > MOST_BYTES {
            let (lines, bytes) = (heard.row_lines, heard.row_bytes);
            return Verdict::Enough(format!(
                "printed {lines} lines, {bytes} bytes, that are no MCP messages, the first {first}"
            ));
        }
        Verdict::Bear
    }

    /// The noise so far, as a problem at `place`.
    pub(super) fn problem(&self, place: &str) -> Option<Problem> {
        let heard = self.heard();
        let first = heard.first.as_ref()?;
        let lines = heard.lines;
        let message = format!(
            "printed {lines} lines on standard output that are no MCP messages, the first {first}"
        );
        Some(Problem::new(place, message).fix("let the server write its log to standard error"))
    }

    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_LINES, Noise, Verdict};

    #[test]
    fn a_banner_is_borne_and_shown() {
        let noise = Noise::default();
        assert_eq!(noise.problem("x"), None);
        assert_eq!(noise.line(b"Listening\x1b[31m on stdio", "expected value"), Verdict::Bear);
        let problem = noise.problem("x").unwrap();
        assert!(problem.message.contains("`Listening\\u{1b}[31m on stdio`"), "{}", problem.message);
    }

    #[test]
    fn a_flood_is_not_and_a_message_between_resets_it() {
        let noise = Noise::default();
        for _ in 0..MOST_LINES {
            assert_eq!(noise.line(b"x", "y"), Verdict::Bear);
        }
        noise.quiet();
        for _ in 0..MOST_LINES {
            assert_eq!(noise.line(b"x", "y"), Verdict::Bear);
        }
        assert!(matches!(noise.line(b"x", "y"), Verdict::Enough(_)));
        assert!(matches!(Noise::default().too_long(usize::MAX), Verdict::Enough(_)));
    }
}
