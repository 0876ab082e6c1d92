//! Latencies, counted in buckets that are 1.6 % wide.

use std::time::Duration;

/// Buckets to an octave, as a power of two.
const BITS: u32 = 6;
const PER_OCTAVE: u64 = 1 << BITS;

/// Counts of latencies, from a nanosecond to centuries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Counts one.
    pub(crate) fn record(&mut self, latency: Duration) {
        let index = index(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(index) {
            *count += 1;
            self.total += 1;
        }
    }

    /// Adds all of another.
    pub(crate) fn merge(&mut self, other: &Self) {
        let length = self.counts.len().max(other.counts.len());
        self.counts.resize(length, 0);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// The latency that `share` of all stay below or at; zero where nothing was counted.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let mut left = share.clamp(0.0, 1.0) * self.total as f64;
        for (index, count) in self.counts.iter().enumerate() {
            left -= *count as f64;
            if *count > 0 && left <= 0.0 {
                return Duration::from_nanos(middle(index as u64));
            }
        }
        Duration::ZERO
    }
}

fn index(nanos: u64) -> usize {
    let octave = (u64::BITS - nanos.leading_zeros()).saturating_sub(BITS + 1);
    let within = nanos >> octave;
    usize::try_from(u64::from(octave) * PER_OCTAVE + within).unwrap_or(usize::MAX)
}

fn middle(index: u64) -> u64 {
    let octave = (index / PER_OCTAVE).saturating_sub(1);
    let low = (index - octave * PER_OCTAVE) << octave;
    low + (1 << octave) / 2
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Histogram, index, middle};

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = 0;
        for nanos in (0..2000)
            .chain((11..60).map(|bit| 1 << bit))
            .chain((11..60).map(|bit| (1 << bit) + 12345))
        {
            let middle = middle(index(nanos) as u64);
            let error = nanos.abs_diff(middle) as f64 / (nanos.max(1)) as f64;
            assert!(error <= 0.016, "{nanos} is counted as {middle}");
            last = last.max(nanos);
        }
        assert!((0..5000).is_sorted_by_key(index));
    }

    #[test]
    fn quantiles_of_a_known_set() {
        let mut all = Histogram::default();
        let mut slow = Histogram::default();
        (1..=990).for_each(|us| all.record(Duration::from_micros(us)));
        (0..10).for_each(|_| slow.record(Duration::from_millis(50)));
        all.merge(&slow);
        let near = |share: f64, micros: f64| {
            let found = all.quantile(share).as_nanos() as f64 / 1000.0;
            assert!((found / micros - 1.0).abs() < 0.02, "{share}: {found}");
        };
        near(0.5, 500.0);
        near(0.99, 990.0);
        near(0.999, 50_000.0);
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }
}
