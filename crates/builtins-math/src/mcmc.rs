//! `mcmc`: samples of a density that is only known as an expression, by Metropolis and Hastings.
//!
//! Several chains, so that it can be told whether they have found the same thing: split R̂ and the
//! effective sample size are those of Gelman and others, Bayesian Data Analysis, 11.4 and 11.5, with
//! Geyer's rule for where to stop.

mod chain;
mod judge;

use serde_json::{Value, json};

use crate::fields::{Fields, names, numbered};
use crate::work::{Answer, Run};
use chain::{Plan, chains};

const DIMENSIONS: usize = 100;
const SAMPLES: usize = 1_000_000;
/// Numbers in an answer.
const WRITTEN: usize = 400_000;
/// Numbers of all samples.
const STORED: usize = 400_000;
/// Steps in all.
const STEPS: u64 = 100_000_000;
/// Above this the chains have not found the same thing.
const APART: f64 = 1.01;

/// Runs the tool.
pub(crate) fn mcmc(fields: Fields<'_>, run: &Run) -> Result<Answer, String> {
    let x0 = fields.numbers("x0", 1..=DIMENSIONS)?;
    let dimension = x0.len();
    let variables = names('x', dimension);
    let density = fields.expression("log_density", numbered('x', dimension), &variables)?;
    let samples = fields.count("n_samples", 10_000, 8..=SAMPLES)?;
    let plan = Plan {
        chains: fields.count("chains", 4, 1..=16)?,
        samples,
        burnin: fields.count("burnin", 1_000, 0..=SAMPLES)?,
        thin: fields.count("thin", 1, 1..=10_000)?,
        width: fields.positive("proposal_std", 1.0)?,
        adapt: fields.flag("adapt")?,
        seed: fields.whole("seed", 42, 0..=u64::MAX)?,
    };
    let returned = fields.count("max_returned", 100, 0..=SAMPLES)?;
    check(&plan, dimension, returned)?;
    let found = chains(&plan, &density, &x0, run)?;
    let per_chain: Vec<&[Vec<f64>]> = found.iter().map(|chain| chain.samples.as_slice()).collect();
    let (accepted, steps) =
        found.iter().fold((0, 0), |sum, chain| (sum.0 + chain.accepted, sum.1 + chain.steps));
    let judged: Vec<judge::Judged> =
        (0..dimension).map(|j| judge::judge(&per_chain, j, run)).collect::<Result<_, _>>()?;
    let all: Vec<&Vec<f64>> = per_chain.iter().flat_map(|chain| chain.iter()).collect();
    let (mean, covariance) = judge::covariance(&all);
    if !mean.iter().chain(covariance.iter().flatten()).all(|x| x.is_finite()) {
        return Err("the samples run away to infinity: `log_density` is no density".to_owned());
    }
    let rhat: Vec<Option<f64>> =
        judged.iter().map(|j| Some(j.rhat).filter(|r| r.is_finite())).collect();
    let std: Vec<f64> =
        (0..dimension).filter_map(|i| Some(covariance.get(i)?.get(i)?.sqrt())).collect();
    let size: Vec<f64> = judged.iter().map(|j| j.size).collect();
    let mut answer = json!({
        "samples": spread(&all, returned),
        "acceptance_rate": accepted as f64 / steps as f64,
        "mean": mean,
        "covariance": covariance,
        "std_dev": std,
        "r_hat": rhat,
        "effective_sample_size": size,
        "n_samples": all.len(),
        "dimension": dimension,
        "chains": plan.chains,
    });
    if let (Some(object), Some(warning)) = (answer.as_object_mut(), warning(&judged, accepted)) {
        object.insert("warning".to_owned(), Value::String(warning));
    }
    Ok(answer.into())
}

/// At most `most` of them, at equal distances.
fn spread<'a>(all: &[&'a Vec<f64>], most: usize) -> Vec<&'a Vec<f64>> {
    let count = most.min(all.len());
    (0..count).filter_map(|at| all.get(at * all.len() / count).copied()).collect()
}

fn check(plan: &Plan, dimension: usize, returned: usize) -> Result<(), String> {
    let steps = (plan.samples as u64).saturating_mul(plan.thin as u64)
        + (plan.burnin as u64).saturating_mul(plan.chains as u64);
    if plan.samples / plan.chains < 4 {
        return Err("`n_samples` must be at least 4 for each of the `chains`".to_owned());
    }
    if steps > STEPS {
        return Err(format!(
            "{steps} steps in all; at most {STEPS} are allowed: lower `thin` or `n_samples`"
        ));
    }
    if plan.samples.saturating_mul(dimension) > STORED {
        let most = STORED / dimension;
        return Err(format!(
            "`n_samples` must be at most {most} with {dimension} dimensions; use `thin`"
        ));
    }
    if returned.min(plan.samples).saturating_mul(dimension) > WRITTEN {
        let most = WRITTEN / dimension;
        return Err(format!("`max_returned` must be at most {most} with {dimension} dimensions"));
    }
    Ok(())
}

fn warning(judged: &[judge::Judged], accepted: u64) -> Option<String> {
    if accepted == 0 {
        return Some("no step was accepted: choose a smaller `proposal_std`".to_owned());
    }
    let worst = judged.iter().map(|j| j.rhat).fold(1.0, f64::max);
    let least = judged.iter().map(|j| j.size).fold(f64::INFINITY, f64::min);
    if worst > APART || !worst.is_finite() {
        return Some(format!(
            "the chains do not agree yet (R-hat up to {worst:.3}, at most {APART} is good): take more \
             samples, or another `proposal_std`"
        ));
    }
    (least < 100.0).then(|| {
        format!("the samples are worth only {least:.0} independent ones: take more, or set `adapt`")
    })
}

#[cfg(test)]
mod tests;
