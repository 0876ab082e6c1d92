//! Restart backoff of a server: delays between starts, and when to give up.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Delay before the first restart.
pub(super) const INITIAL_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay before a restart.
pub(super) const MAX_DELAY: Duration = Duration::from_mins(1);
/// Uptime after which the delay starts from its minimum again.
const STABLE_AFTER: Duration = Duration::from_mins(1);
/// Period in which exits count together.
pub(super) const EXIT_WINDOW: Duration = Duration::from_mins(10);
/// Number of exits within the period after which restarts stop.
pub(super) const MAX_EXITS: usize = 10;

/// Decision after a server's exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestartDecision {
    /// Restart after this delay.
    RetryAfter(Duration),
    /// Do not restart.
    GiveUp,
}

/// Recent exits of one server.
#[derive(Debug, Default)]
pub(super) struct RestartBackoff {
    recent_exits: VecDeque<Instant>,
    consecutive_exits: u32,
}

impl RestartBackoff {
    /// Records an exit now after `uptime`, which is zero if the start failed.
    pub(super) fn record_exit(&mut self, now: Instant, uptime: Duration) -> RestartDecision {
        self.recent_exits.retain(|end| now.duration_since(*end) < EXIT_WINDOW);
        self.recent_exits.push_back(now);
        if self.recent_exits.len() >= MAX_EXITS {
            return RestartDecision::GiveUp;
        }
        self.consecutive_exits = if uptime >= STABLE_AFTER { 0 } else { self.consecutive_exits };
        let wait = INITIAL_DELAY
            .saturating_mul(2_u32.saturating_pow(self.consecutive_exits))
            .min(MAX_DELAY);
        self.consecutive_exits = self.consecutive_exits.saturating_add(1);
        RestartDecision::RetryAfter(wait)
    }

    /// Returns the number of exits within the last [`EXIT_WINDOW`].
    pub(super) fn exit_count(&self) -> usize {
        self.recent_exits.len()
    }

    /// Forgets all exits, when the operator asks for a restart.
    pub(super) fn reset_backoff(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{RestartBackoff, RestartDecision};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_a_minute_and_ten_ends_are_enough() {
        let mut patience = RestartBackoff::default();
        let now = Instant::now();
        let waits: Vec<_> = (0..10).map(|_| patience.record_exit(now, SECOND)).collect();
        let rest = |seconds| RestartDecision::RetryAfter(SECOND * seconds);
        let doubled = [1, 2, 4, 8, 16, 32, 60, 60, 60].map(rest);
        assert_eq!(waits[..9], doubled);
        assert_eq!(waits[9], RestartDecision::GiveUp);
        patience.reset_backoff();
        assert_eq!(patience.record_exit(now, SECOND), rest(1));
    }

    #[test]
    fn a_server_that_ends_once_in_two_minutes_is_always_started_again() {
        let mut patience = RestartBackoff::default();
        let mut now = Instant::now();
        for _ in 0..100 {
            now += 120 * SECOND;
            assert_eq!(
                patience.record_exit(now, 119 * SECOND),
                RestartDecision::RetryAfter(SECOND)
            );
        }
        assert_eq!(patience.exit_count(), 5);
    }
}
