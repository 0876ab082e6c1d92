//! Schedule of retries after failures in a row.

use std::time::Duration;

use tool::MonotonicTime;

/// Schedule of retries. Each failure in a row is followed by the next wait.
#[derive(Debug)]
pub(crate) struct BackoffSchedule {
    /// Waits after the first failure and the further ones; the last one repeats.
    waits: &'static [Duration],
    failure_count: usize,
    retry_at: Option<MonotonicTime>,
}

impl BackoffSchedule {
    pub(crate) const fn new(waits: &'static [Duration]) -> Self {
        Self { waits, failure_count: 0, retry_at: None }
    }

    /// Records a failure, which sets the time of the next retry.
    pub(crate) fn record_failure(&mut self, now: MonotonicTime) {
        let wait = self.waits.get(self.failure_count).or(self.waits.last());
        self.retry_at = Some(now.saturating_add(wait.copied().unwrap_or_default()));
        self.failure_count += 1;
    }

    /// Records a success, which ends the failures in a row.
    pub(crate) fn record_success(&mut self) {
        (self.failure_count, self.retry_at) = (0, None);
    }

    /// Returns the time until the next retry; `None` if nothing has to wait.
    pub(crate) fn remaining_wait(&self, now: MonotonicTime) -> Option<Duration> {
        let retry_at = self.retry_at.filter(|retry_at| now < *retry_at)?;
        Some(retry_at.saturating_duration_since(now))
    }

    /// Returns whether a retry is due, once per failure.
    pub(crate) fn take_due_retry(&mut self, now: MonotonicTime) -> bool {
        self.retry_at.take_if(|retry_at| *retry_at <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_until_a_success_and_each_failure_is_retried_once() {
        const WAITS: [Duration; 2] = [Duration::ZERO, Duration::from_secs(5)];
        let now = MonotonicTime(Duration::from_secs(100));
        let after = |seconds| now.saturating_add(Duration::from_secs(seconds));
        let mut schedule = BackoffSchedule::new(&WAITS);
        assert_eq!((schedule.take_due_retry(now), schedule.remaining_wait(now)), (false, None));
        schedule.record_failure(now);
        assert_eq!(schedule.remaining_wait(now), None);
        assert!(schedule.take_due_retry(now) && !schedule.take_due_retry(now));
        for _ in 0..2 {
            schedule.record_failure(now);
            assert_eq!(schedule.remaining_wait(after(2)), Some(Duration::from_secs(3)));
            assert!(!schedule.take_due_retry(after(4)) && schedule.take_due_retry(after(5)));
        }
        schedule.record_failure(now);
        schedule.record_success();
        assert_eq!(
            (schedule.take_due_retry(after(9)), schedule.remaining_wait(now)),
            (false, None)
        );
        schedule.record_failure(now);
        assert_eq!(schedule.remaining_wait(now), None);
    }
}
