//! A fake clock that only advances on request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tool::clock::duration_millis;
use tool::{Clock, MonotonicTime, WallTime};

/// Wall and monotonic time in milliseconds; wall time starts at 1,000,000,000,000.
#[derive(Debug, Default)]
pub struct FakeClock {
    ms: AtomicU64,
    /// How far the wall time was set back.
    wall_offset: AtomicU64,
}

impl FakeClock {
    /// Advances the wall time and the monotonic time.
    pub fn advance(&self, duration: Duration) {
        let ms = duration_millis(duration);
        self.ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets only the wall time back.
    pub fn step_back(&self, duration: Duration) {
        let ms = duration_millis(duration);
        self.wall_offset.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn wall_now(&self) -> WallTime {
        let on = 1_000_000_000_000 + self.ms.load(Ordering::SeqCst);
        WallTime(on - self.wall_offset.load(Ordering::SeqCst))
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(Duration::from_millis(self.ms.load(Ordering::SeqCst)))
    }
}
