//! `mcmc`: samples a density given as an expression, by the Metropolis–Hastings algorithm.
//!
//! Runs several chains, so that convergence can be checked. Split R̂ and effective sample size
//! follow Gelman et al., Bayesian Data Analysis, 11.4 and 11.5, with Geyer's rule for truncation.

mod diagnostics;
mod metropolis_chain;

use serde_json::{Value, json};

use crate::tool_arguments::{ToolArguments, indexed_variable, variable_names_text};
use crate::tool_execution::{Answer, RunContext};
use metropolis_chain::{SamplerSettings, run_chains};

const DIMENSIONS: usize = 100;
const SAMPLES: usize = 1_000_000;
/// Maximum numbers in an answer.
const WRITTEN: usize = 400_000;
/// Maximum numbers of all samples.
const STORED: usize = 400_000;
/// Maximum steps in total.
const STEPS: u64 = 100_000_000;
/// R̂ above which the chains have not converged.
const APART: f64 = 1.01;

/// Runs the tool `mcmc` with its arguments.
pub(crate) fn run_mcmc(arguments: ToolArguments<'_>, run: &RunContext) -> Result<Answer, String> {
    let x0 = arguments.f64_list("x0", 1..=DIMENSIONS)?;
    let dimension = x0.len();
    let variables = variable_names_text('x', dimension);
    let density =
        arguments.compile_field("log_density", indexed_variable('x', dimension), &variables)?;
    let samples = arguments.usize_in("n_samples", 10_000, 8..=SAMPLES)?;
    let plan = SamplerSettings {
        chains: arguments.usize_in("chains", 4, 1..=16)?,
        samples,
        burnin: arguments.usize_in("burnin", 1_000, 0..=SAMPLES)?,
        thin: arguments.usize_in("thin", 1, 1..=10_000)?,
        proposal_std: arguments.positive_or("proposal_std", 1.0)?,
        adapt: arguments.bool_or_false("adapt")?,
        seed: arguments.integer_in("seed", 42, 0..=u64::MAX)?,
    };
    let returned = arguments.usize_in("max_returned", 100, 0..=SAMPLES)?;
    check_settings(&plan, dimension, returned)?;
    let found = run_chains(&plan, &density, &x0, run)?;
    let per_chain: Vec<&[Vec<f64>]> = found.iter().map(|chain| chain.samples.as_slice()).collect();
    let (accepted, steps) =
        found.iter().fold((0, 0), |sum, chain| (sum.0 + chain.accepted, sum.1 + chain.steps));
    let judged: Vec<diagnostics::ChainDiagnostics> = (0..dimension)
        .map(|j| diagnostics::diagnose_chains(&per_chain, j, run))
        .collect::<Result<_, _>>()?;
    let all: Vec<&Vec<f64>> = per_chain.iter().flat_map(|chain| chain.iter()).collect();
    let (mean, covariance) = diagnostics::covariance(&all);
    if !mean.iter().chain(covariance.iter().flatten()).all(|x| x.is_finite()) {
        return Err("the samples diverge to infinity: `log_density` is not a density".to_owned());
    }
    let rhat: Vec<Option<f64>> =
        judged.iter().map(|j| Some(j.r_hat).filter(|r| r.is_finite())).collect();
    let std: Vec<f64> =
        (0..dimension).filter_map(|i| Some(covariance.get(i)?.get(i)?.sqrt())).collect();
    let size: Vec<f64> = judged.iter().map(|j| j.effective_sample_size).collect();
    let mut answer = json!({
        "samples": thin_evenly(&all, returned),
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
    if let (Some(object), Some(warning)) =
        (answer.as_object_mut(), convergence_warning(&judged, accepted))
    {
        object.insert("warning".to_owned(), Value::String(warning));
    }
    Ok(answer.into())
}

/// Selects at most `most` samples at equal distances.
fn thin_evenly<'a>(all: &[&'a Vec<f64>], most: usize) -> Vec<&'a Vec<f64>> {
    let count = most.min(all.len());
    (0..count).filter_map(|at| all.get(at * all.len() / count).copied()).collect()
}

fn check_settings(plan: &SamplerSettings, dimension: usize, returned: usize) -> Result<(), String> {
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

fn convergence_warning(judged: &[diagnostics::ChainDiagnostics], accepted: u64) -> Option<String> {
    if accepted == 0 {
        return Some("no step was accepted: choose a smaller `proposal_std`".to_owned());
    }
    let worst = judged.iter().map(|j| j.r_hat).fold(1.0, f64::max);
    let least = judged.iter().map(|j| j.effective_sample_size).fold(f64::INFINITY, f64::min);
    if worst > APART || !worst.is_finite() {
        return Some(format!(
            "the chains have not converged (R-hat up to {worst:.3}, at most {APART} is good): use \
             more samples, or another `proposal_std`"
        ));
    }
    (least < 100.0).then(|| {
        format!("the effective sample size is only {least:.0}: use more samples, or set `adapt`")
    })
}

#[cfg(test)]
mod tests;
