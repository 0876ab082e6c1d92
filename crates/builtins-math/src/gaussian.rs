//! Gaussian process regression: predicts a function and its uncertainty from a few observations.
//!
//! Matérn's kernel of 5/2 with a length for each dimension, on places in the unit box and values with
//! mean 0 and deviation 1. Rasmussen and Williams, Gaussian Processes for Machine Learning, 2.2 and 5.4.

#![expect(clippy::indexing_slicing, reason = "all places have one length, all matrices are square")]

use crate::descent::{Until, nelder_mead};
use crate::stats::moments;
use crate::work::Run;

/// What the process is like.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) lengths: Vec<f64>,
    pub(crate) variance: f64,
    pub(crate) noise: f64,
}

impl Kernel {
    fn at(&self, a: &[f64], b: &[f64]) -> f64 {
        let squares: f64 =
            a.iter().zip(b).zip(&self.lengths).map(|((a, b), l)| ((a - b) / l).powi(2)).sum();
        let r = (5.0 * squares).sqrt();
        self.variance * (1.0 + r + r * r / 3.0) * (-r).exp()
    }

    fn matrix(&self, places: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut matrix = vec![vec![0.0; places.len()]; places.len()];
        for i in 0..places.len() {
            for j in 0..i {
                matrix[i][j] = self.at(&places[i], &places[j]);
                matrix[j][i] = matrix[i][j];
            }
            matrix[i][i] = self.variance + self.noise;
        }
        matrix
    }
}

/// A process that has seen values.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    places: Vec<Vec<f64>>,
    pub(crate) kernel: Kernel,
    lower: Vec<Vec<f64>>,
    weights: Vec<f64>,
    /// Mean and deviation of the values as they were given.
    pub(crate) scale: (f64, f64),
}

impl Process {
    /// Fits the kernel to what was seen, from a kernel on, by the likelihood.
    pub(crate) fn fitted(
        places: &[Vec<f64>],
        values: &[f64],
        from: &Kernel,
        run: &Run,
    ) -> Result<Self, String> {
        let (mean, variance) = moments(values);
        let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        let scaled: Vec<f64> = values.iter().map(|y| (y - mean) / deviation).collect();
        let noise = from.noise;
        let kernel = |logs: &[f64]| Kernel {
            lengths: logs[1..].iter().map(|l| l.exp()).collect(),
            variance: logs[0].exp(),
            noise,
        };
        let cost = |logs: &[f64]| {
            // Lengths around a third of the box, and no further off than values can tell.
            let prior: f64 = logs[1..].iter().map(|l| ((l + 1.0) / 1.2).powi(2)).sum::<f64>()
                + (logs[0] / 2.0).powi(2);
            let made = solved(&kernel(logs), places, &scaled);
            made.map_or(f64::INFINITY, |(lower, weights)| {
                let fit: f64 = scaled.iter().zip(&weights).map(|(y, w)| y * w).sum();
                let size: f64 = (0..lower.len()).map(|i| lower[i][i].ln()).sum();
                0.5 * fit + size + 0.5 * prior
            })
        };
        let mut start: Vec<f64> = vec![from.variance.ln()];
        start.extend(from.lengths.iter().map(|l| l.ln()));
        let until = Until { iterations: 20 * start.len() + 20, tolerance: 1e-3 };
        let found = nelder_mead(&start, cost, until, run)?;
        let kernel = kernel(&found.x);
        let (lower, weights) = solved(&kernel, places, &scaled)
            .ok_or("the model of the objective cannot be computed: raise `noise`")?;
        Ok(Self { places: places.to_vec(), kernel, lower, weights, scale: (mean, deviation) })
    }

    /// Mean and deviation at a place, in the scale of the process.
    pub(crate) fn at(&self, x: &[f64]) -> (f64, f64) {
        let near: Vec<f64> = self.places.iter().map(|place| self.kernel.at(place, x)).collect();
        let mean = near.iter().zip(&self.weights).map(|(k, w)| k * w).sum();
        let v = forward(&self.lower, &near);
        let variance = self.kernel.variance - v.iter().map(|v| v * v).sum::<f64>();
        (mean, variance.max(0.0).sqrt())
    }
}

/// The factor of the kernel's matrix, and what it makes of the values.
fn solved(
    kernel: &Kernel,
    places: &[Vec<f64>],
    values: &[f64],
) -> Option<(Vec<Vec<f64>>, Vec<f64>)> {
    let mut matrix = kernel.matrix(places);
    let mut more = 1e-12 * kernel.variance;
    for _ in 0..7 {
        if let Some(lower) = cholesky(&matrix) {
            let weights = backward(&lower, &forward(&lower, values));
            return Some((lower, weights));
        }
        more *= 10.0;
        (0..matrix.len()).for_each(|i| matrix[i][i] += more);
    }
    None
}

/// The lower triangle whose square the matrix is; nothing where it is not positive.
pub(crate) fn cholesky(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
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

fn forward(lower: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut x = Vec::with_capacity(right.len());
    for (i, row) in lower.iter().enumerate() {
        let dot: f64 = row[..i].iter().zip(&x).map(|(a, b): (&f64, &f64)| a * b).sum();
        x.push((right[i] - dot) / row[i]);
    }
    x
}

fn backward(lower: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
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
    use super::{Kernel, Process, cholesky};
    use crate::work::tests::endless;

    #[test]
    fn a_factor_squares_to_its_matrix_and_what_is_not_positive_has_none() {
        let lower = cholesky(&[vec![4.0, 2.0], vec![2.0, 5.0]]).unwrap();
        assert_eq!(lower, [[2.0, 0.0], [1.0, 2.0]]);
        assert!(cholesky(&[vec![1.0, 2.0], vec![2.0, 1.0]]).is_none());
        assert!(cholesky(&[vec![f64::NAN]]).is_none());
    }

    #[test]
    fn it_goes_through_what_it_saw_and_is_unsure_elsewhere() {
        let places: Vec<Vec<f64>> = (0..8).map(|i| vec![f64::from(i) / 7.0]).collect();
        let values: Vec<f64> = places.iter().map(|x| (6.0 * x[0]).sin()).collect();
        let kernel = Kernel { lengths: vec![0.3], variance: 1.0, noise: 1e-8 };
        let process = Process::fitted(&places, &values, &kernel, &endless()).unwrap();
        let (mean, deviation) = process.scale;
        for (x, y) in places.iter().zip(&values) {
            let (found, unsure) = process.at(x);
            assert!((mean + deviation * found - y).abs() < 1e-3 && unsure < 1e-2);
        }
        let (between, unsure) = process.at(&[0.5]);
        assert!((mean + deviation * between - 3.0_f64.sin()).abs() < 0.02);
        assert!(unsure < process.at(&[3.0]).1);
    }
}
