//! Convergence diagnostics of chains: split R-hat and effective sample size.

#![expect(clippy::indexing_slicing, reason = "all samples have one length")]

use crate::descriptive_statistics::mean_and_variance;
use crate::tool_execution::RunContext;

/// Convergence diagnostics of one dimension.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainDiagnostics {
    /// Split R̂: 1 if the halves of all chains agree.
    pub(super) r_hat: f64,
    /// Effective sample size.
    pub(super) effective_sample_size: f64,
}

/// Returns mean and sample covariance.
pub(super) fn covariance(samples: &[&Vec<f64>]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let n = samples.first().map_or(0, |first| first.len());
    let count = samples.len() as f64;
    let mean: Vec<f64> =
        (0..n).map(|j| samples.iter().map(|sample| sample[j]).sum::<f64>() / count).collect();
    let between = |i: usize, j: usize| {
        let products = samples.iter().map(|sample| (sample[i] - mean[i]) * (sample[j] - mean[j]));
        products.sum::<f64>() / (count - 1.0).max(1.0)
    };
    let matrix = (0..n).map(|i| (0..n).map(|j| between(i.max(j), i.min(j))).collect()).collect();
    (mean, matrix)
}

pub(super) fn diagnose_chains(
    chains: &[&[Vec<f64>]],
    dimension: usize,
    run: &RunContext,
) -> Result<ChainDiagnostics, String> {
    let shortest = chains.iter().map(|chain| chain.len()).min().unwrap_or(0);
    let half = shortest / 2;
    let halves: Vec<Vec<f64>> = chains
        .iter()
        .flat_map(|chain| [&chain[..half], &chain[half..2 * half]])
        .map(|part| part.iter().map(|x| x[dimension]).collect())
        .collect();
    diagnose_split_chains(&halves, run)
}

/// Diagnoses chain parts of equal length.
pub(super) fn diagnose_split_chains(
    halves: &[Vec<f64>],
    run: &RunContext,
) -> Result<ChainDiagnostics, String> {
    let n = halves.first().map_or(0, Vec::len);
    let (count, length) = (halves.len() as f64, n as f64);
    let each: Vec<(f64, f64)> = halves.iter().map(|half| mean_and_variance(half)).collect();
    let means: Vec<f64> = each.iter().map(|(mean, _)| *mean).collect();
    let within =
        each.iter().map(|(_, variance)| variance * length / (length - 1.0)).sum::<f64>() / count;
    let between = mean_and_variance(&means).1 * count / (count - 1.0).max(1.0);
    let pooled = within * (length - 1.0) / length + between;
    let all = count * length;
    if pooled.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) {
        // No chain moved.
        return Ok(ChainDiagnostics { r_hat: f64::INFINITY, effective_sample_size: 1.0 });
    }
    let rhat = (pooled / within).sqrt();
    let rho = |lag: usize| {
        let of = |(half, (mean, _)): (&Vec<f64>, &(f64, f64))| {
            let pairs = half.iter().zip(&half[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / length
        };
        let mean = halves.iter().zip(&each).map(of).sum::<f64>() / count;
        1.0 - (within * (length - 1.0) / length - mean) / pooled
    };
    // Sums pairs of autocorrelations while they are positive, and never lets them grow.
    let (mut sum, mut last) = (0.0, f64::INFINITY);
    for lag in (0..n.saturating_sub(2)).step_by(2) {
        if lag % 64 == 0 {
            run.check_cancelled()?;
        }
        let pair = if lag == 0 { 1.0 + rho(1) } else { rho(lag) + rho(lag + 1) };
        if pair <= 0.0 {
            break;
        }
        last = pair.min(last);
        sum += last;
    }
    let time = (2.0 * sum - 1.0).max(1.0 / all.log10().max(1.0));
    Ok(ChainDiagnostics {
        r_hat: rhat,
        effective_sample_size: (all / time).min(all * all.log10()).max(1.0),
    })
}
