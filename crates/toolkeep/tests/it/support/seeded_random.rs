//! Seeded random numbers for times and choices (`SplitMix64`).

use std::time::Duration;

/// A stream of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The printed seed allows to reproduce a failure.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed of its own for each run.
    pub(crate) fn seed() -> u64 {
        uuid::Uuid::new_v4().as_u64_pair().0
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`.
    pub(crate) fn next_below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An index of a list of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next_below(u64::try_from(length).unwrap())).unwrap()
    }

    /// Up to so many milliseconds, in microseconds.
    pub(crate) fn duration_below(&mut self, ms: u64) -> Duration {
        Duration::from_micros(self.next_below(ms * 1_000))
    }
}
