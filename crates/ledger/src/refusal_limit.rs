//! Rate limit of recorded refusals: a number per second, and a count of the others.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tool::{MonotonicTime, WallTime};

const RATE_WINDOW: Duration = Duration::from_secs(1);

/// Records that were dropped; the body of a gap frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalGap {
    /// Refusals that are not on record one by one.
    #[serde(rename = "refused")]
    pub refusal_count: u64,
    /// Time of the first dropped refusal.
    #[serde(rename = "from")]
    pub first_at: WallTime,
    /// When they were counted.
    #[serde(rename = "to")]
    pub counted_at: WallTime,
}

/// The count of the running second.
#[derive(Debug)]
pub(crate) struct RefusalRateLimiter {
    max_per_second: u32,
    window_started: Option<MonotonicTime>,
    written_count: u32,
    dropped_count: u64,
    first_dropped_at: WallTime,
}

impl RefusalRateLimiter {
    pub(crate) fn new(max_per_second: u32) -> Self {
        Self {
            max_per_second,
            window_started: None,
            written_count: 0,
            dropped_count: 0,
            first_dropped_at: WallTime(0),
        }
    }

    fn is_window_over(&self, now: MonotonicTime) -> bool {
        self.window_started.is_none_or(|began| now.saturating_duration_since(began) >= RATE_WINDOW)
    }

    /// Returns the count of refusals dropped in the last second, if it is over.
    pub(crate) fn take_gap(&mut self, now: MonotonicTime, wall: WallTime) -> Option<RefusalGap> {
        if !self.is_window_over(now) || self.dropped_count == 0 {
            return None;
        }
        let gap = RefusalGap {
            refusal_count: self.dropped_count,
            first_at: self.first_dropped_at,
            counted_at: wall,
        };
        self.dropped_count = 0;
        Some(gap)
    }

    /// Returns whether one more refusal may be recorded.
    pub(crate) fn try_acquire(&mut self, now: MonotonicTime) -> bool {
        if self.is_window_over(now) {
            (self.window_started, self.written_count) = (Some(now), 0);
        }
        let free = self.written_count < self.max_per_second;
        self.written_count += u32::from(free);
        free
    }

    /// Counts refusals that are not recorded.
    pub(crate) fn count_dropped(&mut self, count: u64, time: WallTime) {
        if self.dropped_count == 0 {
            self.first_dropped_at = time;
        }
        self.dropped_count += count;
    }
}
