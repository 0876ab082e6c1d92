//! How many refusals are written down: so many a second, and a count of the rest.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tool::{Mono, Wall};

const WINDOW: Duration = Duration::from_secs(1);

/// Records that were dropped; the body of a gap frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Refusals that are not on record one by one.
    pub refused: u64,
    /// When the first of them came.
    pub from: Wall,
    /// When they were counted.
    pub to: Wall,
}

/// The count of the running second.
#[derive(Debug)]
pub(crate) struct Refusals {
    cap: u32,
    began: Option<Mono>,
    written: u32,
    dropped: u64,
    from: Wall,
}

impl Refusals {
    pub(crate) fn new(cap: u32) -> Self {
        Self { cap, began: None, written: 0, dropped: 0, from: Wall(0) }
    }

    fn over(&self, now: Mono) -> bool {
        self.began.is_none_or(|began| now.since(began) >= WINDOW)
    }

    /// What the last second dropped, if it is over.
    pub(crate) fn gap(&mut self, now: Mono, wall: Wall) -> Option<Gap> {
        if !self.over(now) || self.dropped == 0 {
            return None;
        }
        let gap = Gap { refused: self.dropped, from: self.from, to: wall };
        self.dropped = 0;
        Some(gap)
    }

    /// Whether one more may be written down.
    pub(crate) fn take(&mut self, now: Mono) -> bool {
        if self.over(now) {
            (self.began, self.written) = (Some(now), 0);
        }
        let free = self.written < self.cap;
        self.written += u32::from(free);
        free
    }

    /// Counts some that are not written down.
    pub(crate) fn drop_some(&mut self, many: u64, at: Wall) {
        if self.dropped == 0 {
            self.from = at;
        }
        self.dropped += many;
    }
}
