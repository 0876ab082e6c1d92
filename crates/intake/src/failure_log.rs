//! Rate limit for logging the failures of one source: the first immediately, further ones at
//! growing intervals.

use std::time::Duration;

use tokio::time::Instant;

/// Shortest and longest interval between two log lines about the failures of one source.
const LOG_INTERVALS: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

/// Decision whether a failure is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogDecision {
    /// Log it, with the number of skipped failures.
    Log {
        /// Number of failures since the last line.
        since_last: u64,
    },
    /// Do not log this one.
    Skip,
}

/// Failure history of one source.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    /// Time of the last line, and the interval after it.
    last_line: Option<(Instant, Duration)>,
    skipped_count: u64,
    /// True if the last listing succeeded.
    is_listed: bool,
}

impl FailureLog {
    /// Records a failure and decides whether to log it.
    pub(crate) fn record_failure(&mut self) -> LogDecision {
        self.is_listed = false;
        let now = Instant::now();
        let next = match self.last_line {
            Some((at, wait)) if now < at + wait => {
                self.skipped_count += 1;
                return LogDecision::Skip;
            }
            // A source that was healthy for as long as it was silent starts over.
            Some((_, wait)) if self.skipped_count > 0 => {
                wait.saturating_mul(2).min(LOG_INTERVALS.1)
            }
            _ => LOG_INTERVALS.0,
        };
        self.last_line = Some((now, next));
        LogDecision::Log { since_last: std::mem::take(&mut self.skipped_count) }
    }

    /// Records a successful listing; returns true to log it. A success between two skipped failures
    /// is not logged.
    pub(crate) fn record_success(&mut self) -> bool {
        let quiet = self.last_line.is_some_and(|(at, wait)| Instant::now() < at + wait);
        let again = std::mem::replace(&mut self.is_listed, true);
        again || !quiet || self.skipped_count == 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::sleep;

    use super::{FailureLog, LogDecision};

    const SECOND: Duration = Duration::from_secs(1);

    /// The lines that a source causes which fails each second, for so many of them.
    async fn lines(log: &mut FailureLog, seconds: usize) -> usize {
        let mut lines = 0;
        for _ in 0..seconds {
            lines += usize::from(log.record_failure() != LogDecision::Skip);
            sleep(SECOND).await;
        }
        lines
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_failures_are_logged_ever_more_rarely_and_each_line_says_how_many() {
        let mut log = FailureLog::default();
        assert_eq!(log.record_failure(), LogDecision::Log { since_last: 0 });
        sleep(SECOND).await;
        assert_eq!(lines(&mut log, 59).await, 0);
        assert_eq!(log.record_failure(), LogDecision::Log { since_last: 59 });
        sleep(SECOND).await;
        // After 1, 2, 4, 8, 16, 32 minutes and then each hour; without the back-off it were 36,000.
        let all = lines(&mut log, 36_000).await;
        assert!((10..=16).contains(&all), "{all}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_comes_and_goes_is_not_logged_each_time_and_one_that_was_well_is_at_once()
    {
        let mut log = FailureLog::default();
        let mut lines = 0;
        for _ in 0..60 {
            lines += usize::from(log.record_failure() != LogDecision::Skip)
                + usize::from(log.record_success());
            sleep(SECOND).await;
        }
        assert!(lines <= 4, "{lines}");
        assert!(log.record_success());
        sleep(3_600 * SECOND).await;
        assert!(matches!(log.record_failure(), LogDecision::Log { .. }));
    }
}
