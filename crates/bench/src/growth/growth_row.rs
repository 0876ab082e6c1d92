//! Rows of the growth benchmark: figures at several sizes, and the exponent with which they grow.

use std::fmt;

/// Figures of one operation at one size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GrowthPoint {
    /// What grows, such as the number of rules.
    pub(crate) size: usize,
    /// CPU or wall time of one operation, in microseconds.
    pub(crate) micros: f64,
    /// What the operation visits: rules, rows, bytes. It is the same on every machine.
    pub(crate) count: f64,
}

/// A row of the report.
#[derive(Debug)]
pub(crate) struct GrowthRow {
    /// The operation.
    pub(crate) name: &'static str,
    /// What grows.
    pub(crate) grows: &'static str,
    /// What is counted.
    pub(crate) counts: &'static str,
    /// Limit of the exponent of the counts.
    pub(crate) exponent_limit: f64,
    pub(crate) points: Vec<GrowthPoint>,
}

impl GrowthRow {
    /// Creates a row without points.
    pub(crate) fn new(
        name: &'static str,
        grows: &'static str,
        counts: &'static str,
        exponent_limit: f64,
    ) -> Self {
        Self { name, grows, counts, exponent_limit, points: Vec::new() }
    }

    /// Returns the exponent of the times.
    pub(crate) fn time_exponent(&self) -> f64 {
        fit_exponent(self.points.iter().map(|point| (point.size, point.micros * 1e3)))
    }

    /// Returns the exponent of the counts.
    pub(crate) fn count_exponent(&self) -> f64 {
        fit_exponent(self.points.iter().map(|point| (point.size, point.count)))
    }

    /// Returns whether the counts grow as they may; the report marks those that do not.
    #[cfg(test)]
    pub(crate) fn is_within_limit(&self) -> bool {
        self.count_exponent() <= self.exponent_limit
    }
}

/// Fits `b` of `figure = a · size^b` by least squares of the logarithms. Figures below one count as
/// one, so that a constant of zero has the exponent zero.
fn fit_exponent(points: impl Iterator<Item = (usize, f64)>) -> f64 {
    let logs: Vec<(f64, f64)> =
        points.map(|(size, figure)| ((size.max(1) as f64).ln(), figure.max(1.0).ln())).collect();
    let count = logs.len().max(1) as f64;
    let (mean_x, mean_y) = (
        logs.iter().map(|(x, _)| x).sum::<f64>() / count,
        logs.iter().map(|(_, y)| y).sum::<f64>() / count,
    );
    let above: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let below: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if below > 0.0 { above / below } else { 0.0 }
}

impl fmt::Display for GrowthRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = |of: &dyn Fn(&GrowthPoint) -> String| {
            self.points.iter().map(of).collect::<Vec<_>>().join(" / ")
        };
        let sizes = figures(&|point| format_size(point.size));
        let times = figures(&|point| format_micros(point.micros));
        let counts = figures(&|point| format!("{:.0}", point.count));
        let limit = self.exponent_limit;
        let judged = crate::target_check::below_target(self.count_exponent() - 1e-9, limit, "");
        write!(
            f,
            "| {} | {}: {sizes} | {times} | {:.2} | {}: {counts} | {:.2} | {} |",
            self.name,
            self.grows,
            self.time_exponent(),
            self.counts,
            self.count_exponent(),
            judged.replace(" ,", ",").trim_end()
        )
    }
}

fn format_size(size: usize) -> String {
    let digits = size.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn format_micros(micros: f64) -> String {
    match micros {
        ..1.0 => format!("{:.0} ns", micros * 1e3),
        ..1_000.0 => format!("{micros:.1} µs"),
        _ => format!("{:.1} ms", micros / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::{GrowthPoint, GrowthRow, format_size};

    fn row(count: impl Fn(f64) -> f64) -> GrowthRow {
        let point = |size: usize| GrowthPoint {
            size,
            micros: count(size as f64) / 1e3,
            count: count(size as f64),
        };
        GrowthRow {
            name: "a",
            grows: "rules",
            counts: "visited",
            exponent_limit: 0.1,
            points: [10, 100, 1_000].map(point).to_vec(),
        }
    }

    #[test]
    fn the_exponent_tells_constants_from_what_grows() {
        for (found, exponent) in [
            (row(|_| 7.0), 0.0),
            (row(|_| 0.0), 0.0),
            (row(|size| 3.0 * size), 1.0),
            (row(|size| size * size), 2.0),
            (row(|size| 5.0 * size.sqrt()), 0.5),
        ] {
            assert!((found.count_exponent() - exponent).abs() < 1e-6, "{found:?}");
            assert_eq!(found.is_within_limit(), exponent < 0.1, "{found:?}");
            assert_eq!(found.to_string().contains("missed"), exponent >= 0.1, "{found}");
        }
        assert_eq!(
            row(|size| size).to_string(),
            "| a | rules: 10 / 100 / 1,000 | 10 ns / 100 ns / 1.0 µs | 1.00 | \
             visited: 10 / 100 / 1000 | 1.00 | < 0.1, **missed** |"
        );
        assert_eq!(format_size(2_400_000), "2,400,000");
    }
}
