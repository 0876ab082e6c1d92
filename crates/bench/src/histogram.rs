//! Latencies, counted in buckets that are 1 % wide.

use std::time::Duration;

/// The longest latency that is told from longer ones, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;
/// Decimal digits that are kept of a latency.
const DIGITS: u8 = 2;

/// Counts of latencies.
#[derive(Debug, Clone)]
pub(crate) struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    #[expect(clippy::expect_used, reason = "these bounds are allowed, and do not change")]
    fn default() -> Self {
        let counts = hdrhistogram::Histogram::new_with_max(LONGEST, DIGITS);
        Self(counts.expect("allowed bounds"))
    }
}

impl Histogram {
    /// Counts one.
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all of another.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.0 += &other.0;
    }

    /// The latency that `share` of all stay below or at; zero where nothing was counted.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Histogram;

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
