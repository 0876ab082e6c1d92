//! A fake clock that only advances on request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tool::{Clock, Mono, Wall};

/// Wall and monotonic time in milliseconds; wall time starts at 1,000,000,000,000.
#[derive(Debug, Default)]
pub struct FakeClock {
    ms: AtomicU64,
    /// How far the wall time was set back.
    back: AtomicU64,
}

impl FakeClock {
    /// Advances both times.
    pub fn advance(&self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets only the wall time back.
    pub fn step_back(&self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.back.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn wall(&self) -> Wall {
        let on = 1_000_000_000_000 + self.ms.load(Ordering::SeqCst);
        Wall(on - self.back.load(Ordering::SeqCst))
    }
    fn mono(&self) -> Mono {
        Mono(Duration::from_millis(self.ms.load(Ordering::SeqCst)))
    }
}
