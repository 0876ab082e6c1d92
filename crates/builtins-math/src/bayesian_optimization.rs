//! `bayesopt`: Bayesian optimization, which maximises a function with few evaluations.
//!
//! A Gaussian process models the function from the observations. The next point maximises the
//! acquisition function. All randomness comes from the seed.

#![expect(clippy::indexing_slicing, reason = "places and values are as many, places of one length")]

use rand::RngExt as _;
use rand_distr::{Distribution as _, StandardNormal};
use serde_json::json;

use crate::gaussian_process::{GaussianProcess, MaternKernel, Prediction};
use crate::local_minimizers::{StoppingRule, nelder_mead};
use crate::random_streams::{RandomStream, block_stream};
use crate::tool_arguments::{ToolArguments, indexed_variable, variable_names_text};
use crate::tool_execution::{Answer, RunContext};

const DIMENSIONS: usize = 20;
const EVALUATIONS: usize = 300;
/// Candidate points per step; a local search refines the best few of them.
const CANDIDATE_POINTS: usize = 500;
const REFINED_CANDIDATES: usize = 3;

#[derive(Debug, Clone, Copy)]
enum AcquisitionFunction {
    /// Expected improvement.
    ExpectedImprovement,
    /// Upper confidence bound: mean plus two standard deviations.
    UpperConfidenceBound,
    /// Probability of improvement.
    ProbabilityOfImprovement,
}

impl AcquisitionFunction {
    /// Returns the acquisition value of a prediction over `best`. Improvement and
    /// probability are logarithms, since the values themselves are often too small for a local
    /// search.
    fn value_at(self, prediction: Prediction, best: f64) -> f64 {
        let Prediction { mean, deviation } = prediction;
        let above = mean - best;
        let z = above / deviation.max(1e-12);
        let promised = match self {
            Self::UpperConfidenceBound => return mean + 2.0 * deviation,
            _ if deviation < 1e-12 => 0.0,
            Self::ExpectedImprovement => deviation * (z * normal_cdf(z) + normal_pdf(z)),
            // Requires an improvement of 0.01: otherwise it would only search beside the best
            // point.
            Self::ProbabilityOfImprovement => normal_cdf((above - 0.01) / deviation),
        };
        promised.max(f64::MIN_POSITIVE).ln()
    }
}

fn normal_pdf(z: f64) -> f64 {
    (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
}

fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

impl AcquisitionFunction {
    fn from_arguments(fields: ToolArguments<'_>) -> Result<Self, String> {
        Ok(match fields.one_of("acquisition", "ei", &["ei", "ucb", "pi"])? {
            "ucb" => Self::UpperConfidenceBound,
            "pi" => Self::ProbabilityOfImprovement,
            _ => Self::ExpectedImprovement,
        })
    }
}

/// Runs the tool `bayesopt` with its arguments.
pub(crate) fn run_bayesopt(
    arguments: ToolArguments<'_>,
    run: &RunContext,
) -> Result<Answer, String> {
    let bounds = arguments.interval_list("bounds", DIMENSIONS)?;
    let dimension = bounds.len();
    let objective = arguments.compile_field(
        "objective",
        indexed_variable('x', dimension),
        &variable_names_text('x', dimension),
    )?;
    let first = arguments.usize_in("n_init", 5, 1..=EVALUATIONS)?;
    let more = arguments.usize_in("n_iter", 25, 0..=EVALUATIONS)?;
    if first + more > EVALUATIONS {
        return Err(format!(
            "the sum of `n_init` and `n_iter` is {}; the maximum is {EVALUATIONS}",
            first + more
        ));
    }
    let acquisition = AcquisitionFunction::from_arguments(arguments)?;
    let least = arguments.one_of("mode", "maximize", &["maximize", "minimize"])? == "minimize";
    let noise = arguments.positive_or("noise", 1e-6)?;
    let mut draw = block_stream(arguments.integer_in("seed", 42, 0..=u64::MAX)?, 0);
    let sign = if least { -1.0 } else { 1.0 };
    let mut stack = Vec::new();
    let mut value =
        |place: &[f64]| sign * objective.evaluate_f64(&from_unit_box(place, &bounds), &mut stack);
    let mut seen = ObservedPoints::default();
    for place in latin_hypercube(first, dimension, &mut draw) {
        seen.add_observation(value(&place), place);
    }
    let mut kernel = MaternKernel { lengths: vec![0.3; dimension], variance: 1.0, noise };
    for _ in 0..more {
        run.check_cancelled()?;
        let place = match seen.fit_process(&kernel, run)? {
            Some(process) => {
                kernel = process.kernel.clone();
                seen.next_point(&process, acquisition, &mut draw, run)?
            }
            None => (0..dimension).map(|_| draw.random()).collect(),
        };
        seen.add_observation(value(&place), place);
    }
    let best = seen.best_index().ok_or("`objective` has no finite value at any evaluated point")?;
    let (x, y) = (from_unit_box(&seen.places[best], &bounds), sign * seen.values[best]);
    // Length scales in the caller's units, not relative to the box.
    let lengths: Vec<f64> =
        kernel.lengths.iter().zip(&bounds).map(|(l, (low, high))| l * (high - low)).collect();
    let length = (lengths.iter().map(|l| l.ln()).sum::<f64>() / dimension as f64).exp();
    let written: Vec<Vec<f64>> =
        seen.places.iter().map(|place| from_unit_box(place, &bounds)).collect();
    let values: Vec<Option<f64>> =
        seen.values.iter().map(|y| Some(sign * y).filter(|y| y.is_finite())).collect();
    Ok(json!({
        "x_best": x,
        "y_best": y,
        "n_evaluations": written.len(),
        "history": { "X": written, "y": values },
        "model": {
            "length_scale": length, "length_scales": lengths, "signal_variance": kernel.variance,
            "noise": noise, "kernel": "matern52",
        },
    })
    .into())
}

/// Maps a point of the unit box to the caller's box.
fn from_unit_box(place: &[f64], bounds: &[(f64, f64)]) -> Vec<f64> {
    place.iter().zip(bounds).map(|(u, (low, high))| low + u * (high - low)).collect()
}

/// Samples a Latin hypercube: each dimension is divided into `count` strata, and each stratum is
/// used once.
fn latin_hypercube(count: usize, dimension: usize, draw: &mut RandomStream) -> Vec<Vec<f64>> {
    let mut places = vec![Vec::with_capacity(dimension); count];
    for _ in 0..dimension {
        let mut parts: Vec<usize> = (0..count).collect();
        for i in (1..count).rev() {
            parts.swap(i, draw.random_range(0..=i));
        }
        for (place, part) in places.iter_mut().zip(parts) {
            place.push((part as f64 + draw.random::<f64>()) / count as f64);
        }
    }
    places
}

/// Returns the nearest point of the unit box.
fn clamp_to_unit_box(place: &[f64]) -> Vec<f64> {
    place.iter().map(|u| u.clamp(0.0, 1.0)).collect()
}

/// Draws candidate number `i`: near the best point, at a corner, on a face, or anywhere. The best
/// value is often on the boundary, which uniform sampling never reaches.
fn candidate_point(i: usize, best: &[f64], draw: &mut RandomStream) -> Vec<f64> {
    let edge = |draw: &mut RandomStream| f64::from(u8::from(draw.random::<bool>()));
    let mut place: Vec<f64> = (0..best.len()).map(|_| draw.random()).collect();
    match i % 8 {
        near @ 0..=2 => {
            let width = [0.1, 0.02, 0.004][near];
            for (u, best) in place.iter_mut().zip(best) {
                let step: f64 = StandardNormal.sample(draw);
                *u = (best + width * step).clamp(0.0, 1.0);
            }
        }
        3 => place.iter_mut().for_each(|u| *u = edge(draw)),
        4 => {
            let face = draw.random_range(0..place.len());
            place[face] = edge(draw);
        }
        _ => {}
    }
    place
}

/// Observed points and values, in the unit box.
#[derive(Debug, Default)]
struct ObservedPoints {
    places: Vec<Vec<f64>>,
    values: Vec<f64>,
}

impl ObservedPoints {
    fn add_observation(&mut self, value: f64, place: Vec<f64>) {
        self.places.push(place);
        self.values.push(value);
    }

    fn best_index(&self) -> Option<usize> {
        let finite = (0..self.values.len()).filter(|i| self.values[*i].is_finite());
        finite.max_by(|i, j| self.values[*i].total_cmp(&self.values[*j]))
    }

    /// Fits the Gaussian process. A value that is not finite counts as the worst one observed.
    /// `None` before two finite values.
    fn fit_process(
        &self,
        kernel: &MaternKernel,
        run: &RunContext,
    ) -> Result<Option<GaussianProcess>, String> {
        let finite = self.values.iter().copied().filter(|y| y.is_finite());
        let worst = finite.clone().fold(f64::INFINITY, f64::min);
        if finite.count() < 2 {
            return Ok(None);
        }
        let values: Vec<f64> =
            self.values.iter().map(|y| if y.is_finite() { *y } else { worst }).collect();
        GaussianProcess::fit_kernel(&self.places, &values, kernel, run).map(Some)
    }

    /// Returns the point to evaluate next.
    fn next_point(
        &self,
        process: &GaussianProcess,
        acquisition: AcquisitionFunction,
        draw: &mut RandomStream,
        run: &RunContext,
    ) -> Result<Vec<f64>, String> {
        let dimension = process.kernel.lengths.len();
        let best = self.best_index().map_or(&self.places[0], |best| &self.places[best]);
        let (mean, deviation) = process.scale;
        let highest = self.best_index().map_or(0.0, |best| (self.values[best] - mean) / deviation);
        let promise = |place: &[f64]| acquisition.value_at(process.predict_at(place), highest);
        let mut tried: Vec<(f64, Vec<f64>)> = Vec::with_capacity(CANDIDATE_POINTS);
        for i in 0..CANDIDATE_POINTS {
            let place = candidate_point(i, best, draw);
            tried.push((promise(&place), place));
            if i % 64 == 0 {
                run.check_cancelled()?;
            }
        }
        tried.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut found = tried.swap_remove(0);
        tried.insert(0, found.clone());
        for (_, place) in tried.iter().take(REFINED_CANDIDATES) {
            // A point outside counts as its nearest point inside plus a penalty, so that the search
            // can follow an edge.
            let cost = |x: &[f64]| {
                let out: f64 = x.iter().map(|u| (u - u.clamp(0.0, 1.0)).abs()).sum();
                out - promise(&clamp_to_unit_box(x))
            };
            let until = StoppingRule { iterations: 40 + 15 * dimension, tolerance: 1e-9 };
            let climbed = nelder_mead(place, cost, until, run)?;
            let place = clamp_to_unit_box(&climbed.x);
            let promised = promise(&place);
            if promised > found.0 {
                found = (promised, place);
            }
        }
        Ok(self.avoid_duplicates(found.1, draw))
    }

    /// Replaces a point that was already observed by a random one.
    fn avoid_duplicates(&self, place: Vec<f64>, draw: &mut RandomStream) -> Vec<f64> {
        let same = |other: &Vec<f64>| other.iter().zip(&place).all(|(a, b)| (a - b).abs() < 1e-9);
        if self.places.iter().any(same) {
            return place.iter().map(|_| draw.random()).collect();
        }
        place
    }
}

#[cfg(test)]
mod tests;
