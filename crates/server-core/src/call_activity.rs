//! Calls per minute of the last hour: counts, failures and mean duration, for charts.
//!
//! Calls add to counters that exist anyway. Once a minute the difference is kept, so that a call pays
//! nothing for the history.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tool::WallTime;

/// Number of minutes that are kept.
const MAX_MINUTES: usize = 60;

/// Time between two samples.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_mins(1);

/// Counts since the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ActivityTotals {
    /// Finished calls.
    pub(crate) calls: u64,
    /// Calls that failed or whose outcome is unknown.
    pub(crate) failed: u64,
    /// Refused calls.
    pub(crate) refused: u64,
    /// Answered calls, and the sum of their durations in milliseconds.
    pub(crate) answered: u64,
    pub(crate) elapsed_ms: u64,
}

/// The last hour, minute by minute.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ActivityReply {
    /// Complete minutes, oldest first, 60 at most.
    pub minutes: Vec<MinuteActivity>,
}

/// The calls of one minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MinuteActivity {
    /// End of the minute, RFC 3339.
    pub until: String,
    /// Number of calls that ended.
    pub calls: u64,
    /// Number of calls that failed, or whose outcome is unknown.
    pub failed: u64,
    /// Number of calls that were refused.
    pub refused: u64,
    /// Mean duration of the calls that were answered, in milliseconds; null without any.
    pub mean_ms: Option<u64>,
}

/// The samples of a server.
#[derive(Debug, Default)]
pub struct CallActivity {
    samples: Mutex<Samples>,
}

#[derive(Debug, Default)]
struct Samples {
    last: ActivityTotals,
    minutes: VecDeque<MinuteActivity>,
}

impl CallActivity {
    /// Keeps what happened since the sample before.
    pub(crate) fn add_sample(&self, now: WallTime, totals: ActivityTotals) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let last = std::mem::replace(&mut samples.last, totals);
        let answered = totals.answered.saturating_sub(last.answered);
        let elapsed = totals.elapsed_ms.saturating_sub(last.elapsed_ms);
        if samples.minutes.len() >= MAX_MINUTES {
            samples.minutes.pop_front();
        }
        samples.minutes.push_back(MinuteActivity {
            until: now.to_string(),
            calls: totals.calls.saturating_sub(last.calls),
            failed: totals.failed.saturating_sub(last.failed),
            refused: totals.refused.saturating_sub(last.refused),
            mean_ms: elapsed.checked_div(answered),
        });
    }

    /// Returns the kept minutes, oldest first.
    pub fn list_minutes(&self) -> ActivityReply {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        ActivityReply { minutes: samples.minutes.iter().cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use tool::WallTime;

    use super::{ActivityTotals, CallActivity, MAX_MINUTES};

    #[test]
    fn each_minute_has_what_happened_in_it() {
        let activity = CallActivity::default();
        let totals = |calls, failed, answered, elapsed_ms| ActivityTotals {
            calls,
            failed,
            refused: 0,
            answered,
            elapsed_ms,
        };
        activity.add_sample(WallTime(60_000), totals(10, 1, 9, 900));
        activity.add_sample(WallTime(120_000), totals(10, 1, 9, 900));
        activity.add_sample(WallTime(180_000), totals(14, 3, 13, 940));
        let minutes = activity.list_minutes().minutes;
        let counts: Vec<_> =
            minutes.iter().map(|minute| (minute.calls, minute.failed, minute.mean_ms)).collect();
        assert_eq!(counts, [(10, 1, Some(100)), (0, 0, None), (4, 2, Some(10))]);
        assert_eq!(minutes[0].until, "1970-01-01T00:01:00.000Z");
        for _ in 0..2 * MAX_MINUTES {
            activity.add_sample(WallTime(240_000), totals(15, 3, 13, 940));
        }
        let minutes = activity.list_minutes().minutes;
        assert_eq!((minutes.len(), minutes[0].calls), (MAX_MINUTES, 0));
    }
}
