//! Histogram bins of equal width, as NumPy computes them. The last bin includes its right edge.

/// Counts and edges of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HistogramBins {
    pub(crate) counts: Vec<u64>,
    /// Bin edges, one more than counts.
    pub(crate) edges: Vec<f64>,
}

impl HistogramBins {
    /// Creates the bins of finite numbers. If all are equal, they lie in the middle of a range of
    /// width one.
    pub(crate) fn from_values(data: &[f64], count: usize) -> Self {
        let mut least = data.iter().copied().fold(f64::INFINITY, f64::min);
        let mut most = data.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if data.is_empty() {
            (least, most) = (0.0, 1.0);
        } else if most <= least {
            (least, most) = (least - 0.5, most + 0.5);
        }
        // Halved first, because the whole range may overflow.
        let step = (most / 2.0 - least / 2.0) / count as f64 * 2.0;
        let mut edges: Vec<f64> = (0..count).map(|i| least + step * i as f64).collect();
        edges.push(most);
        let mut counts = vec![0; count];
        for x in data.iter().copied() {
            // The edges decide; the quotient only gives the first guess.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 0 and the count"
            )]
            let near = ((x - least) / step).clamp(0.0, count as f64 - 1.0) as usize;
            let edge = |index: usize| edges.get(index).copied().unwrap_or(f64::INFINITY);
            let index = if x < edge(near) {
                near.saturating_sub(1)
            } else if x >= edge(near + 1) && near + 1 < count {
                near + 1
            } else {
                near
            };
            if let Some(count) = counts.get_mut(index) {
                *count += 1;
            }
        }
        Self { counts, edges }
    }
}

#[cfg(test)]
mod tests {
    use super::HistogramBins;

    #[test]
    fn the_last_bin_is_closed_and_all_others_are_half_open() {
        let bins = HistogramBins::from_values(&[0.0, 0.5, 1.0, 1.5, 2.0], 2);
        assert_eq!((bins.counts, bins.edges), (vec![2, 3], vec![0.0, 1.0, 2.0]));
        let bins = HistogramBins::from_values(&[3.0, 3.0], 4);
        assert_eq!((bins.counts, bins.edges), (vec![0, 0, 2, 0], vec![2.5, 2.75, 3.0, 3.25, 3.5]));
        assert_eq!(HistogramBins::from_values(&[-1e308, 1e308], 2).counts, [1, 1]);
    }
}
