//! Local minimizers: Nelder–Mead and gradient descent, for `optimize` and for fitting models.

#![expect(clippy::indexing_slicing, reason = "a simplex has one corner more than dimensions")]

use crate::tool_execution::RunContext;

/// Result of a local minimization.
#[derive(Debug, Clone)]
pub(crate) struct MinimizerResult {
    pub(crate) x: Vec<f64>,
    pub(crate) f: f64,
    pub(crate) iterations: usize,
    pub(crate) evaluations: usize,
    pub(crate) converged: bool,
}

/// Limits at which a minimizer stops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoppingRule {
    pub(crate) iterations: usize,
    /// Absolute tolerance of the vertices and of their values.
    pub(crate) tolerance: f64,
}

/// Vertex of the simplex and its value.
type SimplexVertex = (Vec<f64>, f64);

/// Minimizes by the Nelder–Mead method, with the coefficients and initial simplex of scipy. NaN
/// counts as infinity.
pub(crate) fn nelder_mead(
    x0: &[f64],
    mut f: impl FnMut(&[f64]) -> f64,
    stopping_rule: StoppingRule,
    run: &RunContext,
) -> Result<MinimizerResult, String> {
    let mut evaluations = 0;
    let mut value = |x: &[f64]| {
        evaluations += 1;
        let found = f(x);
        if found.is_nan() { f64::INFINITY } else { found }
    };
    let mut corners: Vec<SimplexVertex> = vec![(x0.to_vec(), value(x0))];
    for i in 0..x0.len() {
        let mut x = x0.to_vec();
        x[i] = if x[i] == 0.0 { 0.000_25 } else { x[i] * 1.05 };
        let found = value(&x);
        corners.push((x, found));
    }
    let by_value = |a: &SimplexVertex, b: &SimplexVertex| a.1.total_cmp(&b.1);
    corners.sort_by(by_value);
    let (mut iterations, mut converged) = (0, false);
    while iterations < stopping_rule.iterations {
        if iterations % 64 == 0 {
            run.check_cancelled()?;
        }
        if has_converged(&corners, stopping_rule.tolerance) {
            converged = true;
            break;
        }
        nelder_mead_step(&mut corners, &mut value);
        corners.sort_by(by_value);
        iterations += 1;
    }
    let (x, f) = corners.swap_remove(0);
    Ok(MinimizerResult { x, f, iterations, evaluations, converged })
}

fn has_converged(corners: &[SimplexVertex], tolerance: f64) -> bool {
    let (best, value) = &corners[0];
    corners[1..].iter().all(|(x, f)| {
        let near = x.iter().zip(best).all(|(a, b)| (a - b).abs() <= tolerance);
        near && (f - value).abs() <= tolerance
    })
}

/// Moves the worst of the sorted `corners`, or all except the best.
fn nelder_mead_step(corners: &mut [SimplexVertex], value: &mut impl FnMut(&[f64]) -> f64) {
    let n = corners.len() - 1;
    let centre: Vec<f64> =
        (0..n).map(|j| corners[..n].iter().map(|(x, _)| x[j]).sum::<f64>() / n as f64).collect();
    let (worst, highest) = corners[n].clone();
    let mut along = |far: f64| {
        let x: Vec<f64> = centre.iter().zip(&worst).map(|(c, w)| c + far * (c - w)).collect();
        let f = value(&x);
        (x, f)
    };
    let (lowest, second) = (corners[0].1, corners[n - 1].1);
    let reflected = along(1.0);
    if reflected.1 < lowest {
        let expanded = along(2.0);
        corners[n] = if expanded.1 < reflected.1 { expanded } else { reflected };
        return;
    }
    if reflected.1 < second {
        corners[n] = reflected;
        return;
    }
    let outside = reflected.1 < highest;
    let contracted = along(if outside { 0.5 } else { -0.5 });
    let good = if outside { contracted.1 <= reflected.1 } else { contracted.1 < highest };
    if good {
        corners[n] = contracted;
        return;
    }
    let best = corners[0].0.clone();
    for (x, f) in &mut corners[1..] {
        x.iter_mut().zip(&best).for_each(|(x, b)| *x = b + 0.5 * (*x - b));
        *f = value(x);
    }
}

/// Minimizes by gradient descent: central differences, and Barzilai–Borwein steps that are halved
/// until the value decreases.
pub(crate) fn gradient_descent(
    x0: &[f64],
    mut f: impl FnMut(&[f64]) -> f64,
    stopping_rule: StoppingRule,
    run: &RunContext,
) -> Result<MinimizerResult, String> {
    let (mut x, mut value) = (x0.to_vec(), f(x0));
    let (mut evaluations, mut iterations, mut converged) = (1, 0, false);
    let mut last: Option<(Vec<f64>, Vec<f64>)> = None;
    while iterations < stopping_rule.iterations {
        run.check_cancelled()?;
        let slope = numeric_gradient(&x, &mut f);
        evaluations += 2 * x.len();
        let steep = slope.iter().map(|g| g * g).sum::<f64>();
        if steep.sqrt() <= stopping_rule.tolerance.sqrt() * 1e-2 {
            converged = true;
            break;
        }
        let mut length = last.as_ref().map_or_else(
            || 1.0 / steep.sqrt().max(1.0),
            |(before, old)| barzilai_borwein_step(&x, before, &slope, old),
        );
        let mut next = None;
        for _ in 0..60 {
            let tried: Vec<f64> = x.iter().zip(&slope).map(|(x, g)| x - length * g).collect();
            let found = f(&tried);
            evaluations += 1;
            if found <= value - 1e-4 * length * steep {
                next = Some((tried, found));
                break;
            }
            length *= 0.5;
        }
        iterations += 1;
        let Some((tried, found)) = next else {
            // No step decreases the value: as low as the differences can tell.
            converged = steep.sqrt() <= 1e-4 * value.abs().max(1.0);
            break;
        };
        last = Some((std::mem::replace(&mut x, tried), slope));
        value = found;
    }
    Ok(MinimizerResult { x, f: value, iterations, evaluations, converged })
}

fn numeric_gradient(x: &[f64], f: &mut impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let mut at = x.to_vec();
    (0..x.len())
        .map(|i| {
            let h = f64::EPSILON.cbrt() * x[i].abs().max(1.0);
            at[i] = x[i] + h;
            let above = f(&at);
            at[i] = x[i] - h;
            let below = f(&at);
            at[i] = x[i];
            (above - below) / (2.0 * h)
        })
        .collect()
}

fn barzilai_borwein_step(x: &[f64], before: &[f64], slope: &[f64], old: &[f64]) -> f64 {
    let (mut ss, mut sy) = (0.0, 0.0);
    for i in 0..x.len() {
        let (s, y) = (x[i] - before[i], slope[i] - old[i]);
        ss += s * s;
        sy += s * y;
    }
    if sy > 0.0 { ss / sy } else { 1.0 }
}
