//! Wall and monotonic clocks of the system.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tool::clock::duration_millis;
use tool::{Clock, MonotonicTime, WallTime};

/// Clock with the system's wall time and a monotonic time since its creation.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the Clock port's one real end")]
        let start = Instant::now();
        Self { start }
    }
}

impl Clock for SystemClock {
    fn wall_now(&self) -> WallTime {
        #[expect(clippy::disallowed_methods, reason = "this is the Clock port's one real end")]
        let now = SystemTime::now();
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime(duration_millis(since))
    }

    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(self.start.elapsed())
    }
}
