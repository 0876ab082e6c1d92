//! How long to wait before a server is started again, and when to stop trying.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The first wait.
pub(super) const FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
pub(super) const LONGEST: Duration = Duration::from_mins(1);
/// A server that was up for this long starts with the first wait again.
const STEADY: Duration = Duration::from_mins(1);
/// Ends within this time count together.
pub(super) const WINDOW: Duration = Duration::from_mins(10);
/// This many of them are enough.
pub(super) const ENOUGH: usize = 10;

/// What to do after an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Start again after this long.
    Rest(Duration),
    /// Leave it down.
    GiveUp,
}

/// The ends of one server.
#[derive(Debug, Default)]
pub(super) struct Patience {
    ends: VecDeque<Instant>,
    row: u32,
}

impl Patience {
    /// An end, now, after the server had been up for `up`; zero where it did not get that far.
    pub(super) fn ended(&mut self, now: Instant, up: Duration) -> Next {
        self.ends.retain(|end| now.duration_since(*end) < WINDOW);
        self.ends.push_back(now);
        if self.ends.len() >= ENOUGH {
            return Next::GiveUp;
        }
        self.row = if up >= STEADY { 0 } else { self.row };
        let wait = FIRST.saturating_mul(2_u32.saturating_pow(self.row)).min(LONGEST);
        self.row = self.row.saturating_add(1);
        Next::Rest(wait)
    }

    /// Ends within the last [`WINDOW`].
    pub(super) fn ends(&self) -> usize {
        self.ends.len()
    }

    /// The operator asks to try again: nothing is held against it any more.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Next, Patience};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_a_minute_and_ten_ends_are_enough() {
        let mut patience = Patience::default();
        let now = Instant::now();
        let waits: Vec<_> = (0..10).map(|_| patience.ended(now, SECOND)).collect();
        let rest = |seconds| Next::Rest(SECOND * seconds);
        let doubled = [1, 2, 4, 8, 16, 32, 60, 60, 60].map(rest);
        assert_eq!(waits[..9], doubled);
        assert_eq!(waits[9], Next::GiveUp);
        patience.forget();
        assert_eq!(patience.ended(now, SECOND), rest(1));
    }

    #[test]
    fn a_server_that_ends_once_in_two_minutes_is_always_started_again() {
        let mut patience = Patience::default();
        let mut now = Instant::now();
        for _ in 0..100 {
            now += 120 * SECOND;
            assert_eq!(patience.ended(now, 119 * SECOND), Next::Rest(SECOND));
        }
        assert_eq!(patience.ends(), 5);
    }
}
