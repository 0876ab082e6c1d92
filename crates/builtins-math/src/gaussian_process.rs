//! Gaussian process regression: predicts a function and its uncertainty from a few observations.
//!
//! Matérn 5/2 kernel with one length scale per dimension, on points in the unit box and values with
//! mean 0 and standard deviation 1. Rasmussen and Williams, Gaussian Processes for Machine
//! Learning, 2.2 and 5.4.

#![expect(clippy::indexing_slicing, reason = "all places have one length, all matrices are square")]

use crate::descriptive_statistics::mean_and_variance;
use crate::local_minimizers::{StoppingRule, nelder_mead};
use crate::tool_execution::RunContext;

/// Matérn kernel: length scales, variance and noise.
#[derive(Debug, Clone)]
pub(crate) struct MaternKernel {
    pub(crate) lengths: Vec<f64>,
    pub(crate) variance: f64,
    pub(crate) noise: f64,
}

impl MaternKernel {
    fn covariance_of(&self, a: &[f64], b: &[f64]) -> f64 {
        let squares: f64 =
            a.iter().zip(b).zip(&self.lengths).map(|((a, b), l)| ((a - b) / l).powi(2)).sum();
        let r = (5.0 * squares).sqrt();
        self.variance * (1.0 + r + r * r / 3.0) * (-r).exp()
    }

    fn covariance_matrix(&self, places: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut matrix = vec![vec![0.0; places.len()]; places.len()];
        for i in 0..places.len() {
            for j in 0..i {
                matrix[i][j] = self.covariance_of(&places[i], &places[j]);
                matrix[j][i] = matrix[i][j];
            }
            matrix[i][i] = self.variance + self.noise;
        }
        matrix
    }
}

/// Predicted value of the function at one point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prediction {
    pub(crate) mean: f64,
    /// Standard deviation.
    pub(crate) deviation: f64,
}

/// Gaussian process with observed values.
#[derive(Debug, Clone)]
pub(crate) struct GaussianProcess {
    places: Vec<Vec<f64>>,
    pub(crate) kernel: MaternKernel,
    lower: Vec<Vec<f64>>,
    weights: Vec<f64>,
    /// Mean and standard deviation of the original values.
    pub(crate) scale: (f64, f64),
}

impl GaussianProcess {
    /// Fits the kernel to the observations by maximum likelihood, starting from a kernel.
    pub(crate) fn fit_kernel(
        points: &[Vec<f64>],
        values: &[f64],
        initial: &MaternKernel,
        run: &RunContext,
    ) -> Result<Self, String> {
        let (mean, variance) = mean_and_variance(values);
        let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        let scaled: Vec<f64> = values.iter().map(|y| (y - mean) / deviation).collect();
        let noise = initial.noise;
        let kernel = |logs: &[f64]| MaternKernel {
            lengths: logs[1..].iter().map(|l| l.exp()).collect(),
            variance: logs[0].exp(),
            noise,
        };
        let cost = |logs: &[f64]| {
            // Prior: length scales around a third of the box, and a moderate variance.
            let prior: f64 = logs[1..].iter().map(|l| ((l + 1.0) / 1.2).powi(2)).sum::<f64>()
                + (logs[0] / 2.0).powi(2);
            let made = factorize_kernel(&kernel(logs), points, &scaled);
            made.map_or(f64::INFINITY, |(lower, weights)| {
                let fit: f64 = scaled.iter().zip(&weights).map(|(y, w)| y * w).sum();
                let size: f64 = (0..lower.len()).map(|i| lower[i][i].ln()).sum();
                0.5 * fit + size + 0.5 * prior
            })
        };
        let mut start: Vec<f64> = vec![initial.variance.ln()];
        start.extend(initial.lengths.iter().map(|l| l.ln()));
        let until = StoppingRule { iterations: 20 * start.len() + 20, tolerance: 1e-3 };
        let found = nelder_mead(&start, cost, until, run)?;
        let kernel = kernel(&found.x);
        let (lower, weights) = factorize_kernel(&kernel, points, &scaled)
            .ok_or("the model of the objective cannot be computed: raise `noise`")?;
        Ok(Self { places: points.to_vec(), kernel, lower, weights, scale: (mean, deviation) })
    }

    /// Predicts the function's value at a point, in the scale of the process.
    pub(crate) fn predict_at(&self, x: &[f64]) -> Prediction {
        let near: Vec<f64> =
            self.places.iter().map(|place| self.kernel.covariance_of(place, x)).collect();
        let mean = near.iter().zip(&self.weights).map(|(k, w)| k * w).sum();
        let v = solve_lower(&self.lower, &near);
        let variance = self.kernel.variance - v.iter().map(|v| v * v).sum::<f64>();
        Prediction { mean, deviation: variance.max(0.0).sqrt() }
    }
}

/// Returns the Cholesky factor of the kernel matrix and the weights of the values.
fn factorize_kernel(
    kernel: &MaternKernel,
    places: &[Vec<f64>],
    values: &[f64],
) -> Option<(Vec<Vec<f64>>, Vec<f64>)> {
    let mut matrix = kernel.covariance_matrix(places);
    let mut more = 1e-12 * kernel.variance;
    for _ in 0..7 {
        if let Some(lower) = cholesky_factor(&matrix) {
            let weights = solve_upper(&lower, &solve_lower(&lower, values));
            return Some((lower, weights));
        }
        more *= 10.0;
        (0..matrix.len()).for_each(|i| matrix[i][i] += more);
    }
    None
}

/// Returns the lower Cholesky factor; `None` if the matrix is not positive definite.
pub(crate) fn cholesky_factor(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = matrix.len();
    let mut lower = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let dot: f64 = lower[i][..j].iter().zip(&lower[j][..j]).map(|(a, b)| a * b).sum();
            let rest = matrix[i][j] - dot;
            if i == j {
                if rest.is_nan() || rest <= 0.0 {
                    return None;
                }
                lower[i][i] = rest.sqrt();
            } else {
                lower[i][j] = rest / lower[j][j];
            }
        }
    }
    Some(lower)
}

fn solve_lower(lower: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut x = Vec::with_capacity(right.len());
    for (i, row) in lower.iter().enumerate() {
        let dot: f64 = row[..i].iter().zip(&x).map(|(a, b): (&f64, &f64)| a * b).sum();
        x.push((right[i] - dot) / row[i]);
    }
    x
}

fn solve_upper(lower: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let n = right.len();
    let mut x = vec![0.0; n];
    for i in (0..n).rev() {
        let dot: f64 = (i + 1..n).map(|j| lower[j][i] * x[j]).sum();
        x[i] = (right[i] - dot) / lower[i][i];
    }
    x
}

#[cfg(test)]
mod tests {
    use super::{GaussianProcess, MaternKernel, cholesky_factor};
    use crate::tool_execution::tests::endless;

    #[test]
    fn a_factor_squares_to_its_matrix_and_what_is_not_positive_has_none() {
        let lower = cholesky_factor(&[vec![4.0, 2.0], vec![2.0, 5.0]]).unwrap();
        assert_eq!(lower, [[2.0, 0.0], [1.0, 2.0]]);
        assert!(cholesky_factor(&[vec![1.0, 2.0], vec![2.0, 1.0]]).is_none());
        assert!(cholesky_factor(&[vec![f64::NAN]]).is_none());
    }

    #[test]
    fn it_goes_through_what_it_saw_and_is_unsure_elsewhere() {
        let places: Vec<Vec<f64>> = (0..8).map(|i| vec![f64::from(i) / 7.0]).collect();
        let values: Vec<f64> = places.iter().map(|x| (6.0 * x[0]).sin()).collect();
        let kernel = MaternKernel { lengths: vec![0.3], variance: 1.0, noise: 1e-8 };
        let process = GaussianProcess::fit_kernel(&places, &values, &kernel, &endless()).unwrap();
        let (mean, deviation) = process.scale;
        for (x, y) in places.iter().zip(&values) {
            let found = process.predict_at(x);
            assert!((mean + deviation * found.mean - y).abs() < 1e-3 && found.deviation < 1e-2);
        }
        let between = process.predict_at(&[0.5]);
        assert!((mean + deviation * between.mean - 3.0_f64.sin()).abs() < 0.02);
        assert!(between.deviation < process.predict_at(&[3.0]).deviation);
    }
}
