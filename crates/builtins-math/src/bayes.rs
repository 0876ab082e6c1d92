//! `bayesopt`: Bayesian optimization, which maximises a function with few evaluations.
//!
//! A Gaussian process guesses the function from what was seen; the next place is where the acquisition
//! promises the most. Everything is drawn from the seed.

#![expect(clippy::indexing_slicing, reason = "places and values are as many, places of one length")]

use rand::RngExt as _;
use rand_distr::{Distribution as _, StandardNormal};
use serde_json::json;

use crate::descent::{Until, nelder_mead};
use crate::fields::{Fields, names, numbered};
use crate::gaussian::{Kernel, Process};
use crate::random::{Stream, stream};
use crate::work::{Answer, Run};

const DIMENSIONS: usize = 20;
const EVALUATIONS: usize = 300;
/// Places that are tried before the best few of them are climbed from.
const TRIED: usize = 500;
const CLIMBED: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Acquisition {
    /// Expected improvement.
    Expected,
    /// Upper confidence bound, two deviations up.
    Bound,
    /// Probability of improvement.
    Probability,
}

impl Acquisition {
    /// What a place with this mean and deviation promises over `best`. Improvement and probability are
    /// logarithms: both are often too near nothing to be climbed as they are.
    fn of(self, (mean, deviation): (f64, f64), best: f64) -> f64 {
        let above = mean - best;
        let z = above / deviation.max(1e-12);
        let promised = match self {
            Self::Bound => return mean + 2.0 * deviation,
            _ if deviation < 1e-12 => 0.0,
            Self::Expected => deviation * (z * chance(z) + bell(z)),
            // A hundredth of a deviation better counts: else it would only look beside the best.
            Self::Probability => chance((above - 0.01) / deviation),
        };
        promised.max(f64::MIN_POSITIVE).ln()
    }
}

fn bell(z: f64) -> f64 {
    (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
}

fn chance(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// Runs the tool.
pub(crate) fn bayesopt(fields: Fields<'_>, run: &Run) -> Result<Answer, String> {
    let bounds = fields.bounds("bounds", DIMENSIONS)?;
    let dimension = bounds.len();
    let objective =
        fields.expression("objective", numbered('x', dimension), &names('x', dimension))?;
    let first = fields.count("n_init", 5, 1..=EVALUATIONS)?;
    let more = fields.count("n_iter", 25, 0..=EVALUATIONS)?;
    if first + more > EVALUATIONS {
        return Err(format!(
            "`n_init` and `n_iter` make {}; at most {EVALUATIONS} together",
            first + more
        ));
    }
    let acquisition = match fields.choice("acquisition", "ei", &["ei", "ucb", "pi"])? {
        "ucb" => Acquisition::Bound,
        "pi" => Acquisition::Probability,
        _ => Acquisition::Expected,
    };
    let least = fields.choice("mode", "maximize", &["maximize", "minimize"])? == "minimize";
    let noise = fields.positive("noise", 1e-6)?;
    let mut draw = stream(fields.whole("seed", 42, 0..=u64::MAX)?, 0);
    let sign = if least { -1.0 } else { 1.0 };
    let mut stack = Vec::new();
    let mut value = |place: &[f64]| sign * objective.real(&inside(place, &bounds), &mut stack);
    let mut seen = Seen::default();
    for place in spread(first, dimension, &mut draw) {
        seen.add(value(&place), place);
    }
    let mut kernel = Kernel { lengths: vec![0.3; dimension], variance: 1.0, noise };
    for _ in 0..more {
        run.go_on()?;
        let place = match seen.process(&kernel, run)? {
            Some(process) => {
                kernel = process.kernel.clone();
                seen.next(&process, acquisition, &mut draw, run)?
            }
            None => (0..dimension).map(|_| draw.random()).collect(),
        };
        seen.add(value(&place), place);
    }
    let best = seen.best().ok_or("`objective` has no finite value at any place that was tried")?;
    let (x, y) = (inside(&seen.places[best], &bounds), sign * seen.values[best]);
    // The lengths as the caller measures, not in parts of the box.
    let lengths: Vec<f64> =
        kernel.lengths.iter().zip(&bounds).map(|(l, (low, high))| l * (high - low)).collect();
    let length = (lengths.iter().map(|l| l.ln()).sum::<f64>() / dimension as f64).exp();
    let written: Vec<Vec<f64>> = seen.places.iter().map(|place| inside(place, &bounds)).collect();
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

/// From the unit box to the caller's.
fn inside(place: &[f64], bounds: &[(f64, f64)]) -> Vec<f64> {
    place.iter().zip(bounds).map(|(u, (low, high))| low + u * (high - low)).collect()
}

/// A Latin hypercube: each dimension is cut into as many parts, and each part is used once.
fn spread(count: usize, dimension: usize, draw: &mut Stream) -> Vec<Vec<f64>> {
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

/// The nearest place of the unit box.
fn within(place: &[f64]) -> Vec<f64> {
    place.iter().map(|u| u.clamp(0.0, 1.0)).collect()
}

/// The `i`th place to try: near the best one, at a corner, on a face, or anywhere. What promises most is
/// often at an edge of the box, where nothing was seen, and chance alone never goes there.
fn candidate(i: usize, best: &[f64], draw: &mut Stream) -> Vec<f64> {
    let edge = |draw: &mut Stream| f64::from(u8::from(draw.random::<bool>()));
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

/// What was evaluated, in the unit box.
#[derive(Debug, Default)]
struct Seen {
    places: Vec<Vec<f64>>,
    values: Vec<f64>,
}

impl Seen {
    fn add(&mut self, value: f64, place: Vec<f64>) {
        self.places.push(place);
        self.values.push(value);
    }

    fn best(&self) -> Option<usize> {
        let finite = (0..self.values.len()).filter(|i| self.values[*i].is_finite());
        finite.max_by(|i, j| self.values[*i].total_cmp(&self.values[*j]))
    }

    /// What is not finite counts as the worst that was seen. Nothing before two values were.
    fn process(&self, kernel: &Kernel, run: &Run) -> Result<Option<Process>, String> {
        let finite = self.values.iter().copied().filter(|y| y.is_finite());
        let worst = finite.clone().fold(f64::INFINITY, f64::min);
        if finite.count() < 2 {
            return Ok(None);
        }
        let values: Vec<f64> =
            self.values.iter().map(|y| if y.is_finite() { *y } else { worst }).collect();
        Process::fitted(&self.places, &values, kernel, run).map(Some)
    }

    /// Where to look next.
    fn next(
        &self,
        process: &Process,
        acquisition: Acquisition,
        draw: &mut Stream,
        run: &Run,
    ) -> Result<Vec<f64>, String> {
        let dimension = process.kernel.lengths.len();
        let best = self.best().map_or(&self.places[0], |best| &self.places[best]);
        let (mean, deviation) = process.scale;
        let highest = self.best().map_or(0.0, |best| (self.values[best] - mean) / deviation);
        let promise = |place: &[f64]| acquisition.of(process.at(place), highest);
        let mut tried: Vec<(f64, Vec<f64>)> = Vec::with_capacity(TRIED);
        for i in 0..TRIED {
            let place = candidate(i, best, draw);
            tried.push((promise(&place), place));
            if i % 64 == 0 {
                run.go_on()?;
            }
        }
        tried.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut found = tried.swap_remove(0);
        tried.insert(0, found.clone());
        for (_, place) in tried.iter().take(CLIMBED) {
            // Outside counts as the nearest place inside, so that it climbs along an edge too.
            let cost = |x: &[f64]| {
                let out: f64 = x.iter().map(|u| (u - u.clamp(0.0, 1.0)).abs()).sum();
                out - promise(&within(x))
            };
            let until = Until { iterations: 40 + 15 * dimension, tolerance: 1e-9 };
            let climbed = nelder_mead(place, cost, until, run)?;
            let place = within(&climbed.x);
            let promised = promise(&place);
            if promised > found.0 {
                found = (promised, place);
            }
        }
        Ok(self.apart(found.1, draw))
    }

    /// What was seen already teaches nothing: then anywhere.
    fn apart(&self, place: Vec<f64>, draw: &mut Stream) -> Vec<f64> {
        let same = |other: &Vec<f64>| other.iter().zip(&place).all(|(a, b)| (a - b).abs() < 1e-9);
        if self.places.iter().any(same) {
            return place.iter().map(|_| draw.random()).collect();
        }
        place
    }
}

#[cfg(test)]
mod tests;
