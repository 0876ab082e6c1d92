//! The system's clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tool::{Clock, Mono, Wall};

/// Wall time from the system, monotonic time from the moment this was made.
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
    fn wall(&self) -> Wall {
        #[expect(clippy::disallowed_methods, reason = "this is the Clock port's one real end")]
        let now = SystemTime::now();
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Wall(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn mono(&self) -> Mono {
        Mono(self.start.elapsed())
    }
}
