//! Latency histogram with buckets that are 1 % wide.

use std::time::Duration;

/// Largest latency that is distinguished, in nanoseconds: one hour.
const MAX_LATENCY_NANOS: u64 = 3_600_000_000_000;
/// Significant decimal digits of a latency.
const PRECISION_DIGITS: u8 = 2;

/// A histogram of latencies.
#[derive(Debug, Clone)]
pub(crate) struct LatencyHistogram(hdrhistogram::Histogram<u64>);

impl Default for LatencyHistogram {
    #[expect(clippy::expect_used, reason = "these bounds are allowed, and do not change")]
    fn default() -> Self {
        let counts = hdrhistogram::Histogram::new_with_max(MAX_LATENCY_NANOS, PRECISION_DIGITS);
        Self(counts.expect("allowed bounds"))
    }
}

impl LatencyHistogram {
    /// Adds one latency to the counts.
    pub(crate) fn record_latency(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the number of latencies.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Adds the counts of another histogram.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.0 += &other.0;
    }

    /// Returns the latency at quantile `fraction`; zero for an empty histogram.
    pub(crate) fn quantile(&self, fraction: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(fraction))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::LatencyHistogram;

    #[test]
    fn quantiles_of_a_known_set() {
        let mut all = LatencyHistogram::default();
        let mut slow = LatencyHistogram::default();
        (1..=990).for_each(|us| all.record_latency(Duration::from_micros(us)));
        (0..10).for_each(|_| slow.record_latency(Duration::from_millis(50)));
        all.merge(&slow);
        let near = |share: f64, micros: f64| {
            let found = all.quantile(share).as_nanos() as f64 / 1000.0;
            assert!((found / micros - 1.0).abs() < 0.02, "{share}: {found}");
        };
        near(0.5, 500.0);
        near(0.99, 990.0);
        near(0.999, 50_000.0);
        assert_eq!(LatencyHistogram::default().quantile(0.5), Duration::ZERO);
    }
}
