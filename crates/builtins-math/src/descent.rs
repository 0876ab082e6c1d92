//! Local minimizers: Nelder–Mead and gradient descent, for `optimize` and for fitting models.

#![expect(clippy::indexing_slicing, reason = "a simplex has one corner more than dimensions")]

use crate::work::Run;

/// What was found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) x: Vec<f64>,
    pub(crate) f: f64,
    pub(crate) iterations: usize,
    pub(crate) evaluations: usize,
    pub(crate) converged: bool,
}

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    pub(crate) iterations: usize,
    /// Of the corners and of their values, absolute.
    pub(crate) tolerance: f64,
}

/// One corner and its value.
type Corner = (Vec<f64>, f64);

/// The simplex method with its usual factors and first simplex, those of scipy. What is no number counts
/// as infinitely high.
pub(crate) fn nelder_mead(
    x0: &[f64],
    mut f: impl FnMut(&[f64]) -> f64,
    until: Until,
    run: &Run,
) -> Result<Found, String> {
    let mut evaluations = 0;
    let mut value = |x: &[f64]| {
        evaluations += 1;
        let found = f(x);
        if found.is_nan() { f64::INFINITY } else { found }
    };
    let mut corners: Vec<Corner> = vec![(x0.to_vec(), value(x0))];
    for i in 0..x0.len() {
        let mut x = x0.to_vec();
        x[i] = if x[i] == 0.0 { 0.000_25 } else { x[i] * 1.05 };
        let found = value(&x);
        corners.push((x, found));
    }
    let by_value = |a: &Corner, b: &Corner| a.1.total_cmp(&b.1);
    corners.sort_by(by_value);
    let (mut iterations, mut converged) = (0, false);
    while iterations < until.iterations {
        if iterations % 64 == 0 {
            run.go_on()?;
        }
        if small(&corners, until.tolerance) {
            converged = true;
            break;
        }
        step(&mut corners, &mut value);
        corners.sort_by(by_value);
        iterations += 1;
    }
    let (x, f) = corners.swap_remove(0);
    Ok(Found { x, f, iterations, evaluations, converged })
}

fn small(corners: &[Corner], tolerance: f64) -> bool {
    let (best, value) = &corners[0];
    corners[1..].iter().all(|(x, f)| {
        let near = x.iter().zip(best).all(|(a, b)| (a - b).abs() <= tolerance);
        near && (f - value).abs() <= tolerance
    })
}

/// Moves the worst of the sorted `corners`, or all but the best.
fn step(corners: &mut [Corner], value: &mut impl FnMut(&[f64]) -> f64) {
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

/// Down the gradient, which is taken by central differences, in steps of Barzilai and Borwein that are
/// halved until they go down.
pub(crate) fn gradient(
    x0: &[f64],
    mut f: impl FnMut(&[f64]) -> f64,
    until: Until,
    run: &Run,
) -> Result<Found, String> {
    let (mut x, mut value) = (x0.to_vec(), f(x0));
    let (mut evaluations, mut iterations, mut converged) = (1, 0, false);
    let mut last: Option<(Vec<f64>, Vec<f64>)> = None;
    while iterations < until.iterations {
        run.go_on()?;
        let slope = slope(&x, &mut f);
        evaluations += 2 * x.len();
        let steep = slope.iter().map(|g| g * g).sum::<f64>();
        if steep.sqrt() <= until.tolerance.sqrt() * 1e-2 {
            converged = true;
            break;
        }
        let mut length = last.as_ref().map_or_else(
            || 1.0 / steep.sqrt().max(1.0),
            |(before, old)| barzilai(&x, before, &slope, old),
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
            // No step goes down any more: as low as differences can tell.
            converged = steep.sqrt() <= 1e-4 * value.abs().max(1.0);
            break;
        };
        last = Some((std::mem::replace(&mut x, tried), slope));
        value = found;
    }
    Ok(Found { x, f: value, iterations, evaluations, converged })
}

fn slope(x: &[f64], f: &mut impl FnMut(&[f64]) -> f64) -> Vec<f64> {
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

fn barzilai(x: &[f64], before: &[f64], slope: &[f64], old: &[f64]) -> f64 {
    let (mut ss, mut sy) = (0.0, 0.0);
    for i in 0..x.len() {
        let (s, y) = (x[i] - before[i], slope[i] - old[i]);
        ss += s * s;
        sy += s * y;
    }
    if sy > 0.0 { ss / sy } else { 1.0 }
}
