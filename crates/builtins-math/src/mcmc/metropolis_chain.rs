//! Metropolis–Hastings chains, run one by one or together.

#![expect(clippy::indexing_slicing, reason = "all states have one length")]

use std::sync::Mutex;

use builtins::CompiledExpression;
use rand::RngExt as _;
use rand_distr::{Distribution as _, StandardNormal};

use super::diagnostics::covariance;
use crate::random_streams::{RandomStream, block_stream};
use crate::tool_execution::RunContext;

/// Settings of the sampler.
#[derive(Debug, Clone, Copy)]
pub(super) struct SamplerSettings {
    pub(super) chains: usize,
    /// Samples of all chains together.
    pub(super) samples: usize,
    /// Burn-in steps of each chain.
    pub(super) burnin: usize,
    pub(super) thin: usize,
    pub(super) proposal_std: f64,
    /// Whether the proposal adapts during burn-in; never after it.
    pub(super) adapt: bool,
    pub(super) seed: u64,
}

#[derive(Debug, Default)]
pub(super) struct ChainResult {
    pub(super) samples: Vec<Vec<f64>>,
    pub(super) accepted: u64,
    pub(super) steps: u64,
}

/// Runs all chains, each with its own random stream.
pub(super) fn run_chains(
    plan: &SamplerSettings,
    density: &CompiledExpression,
    x0: &[f64],
    run: &RunContext,
) -> Result<Vec<ChainResult>, String> {
    let done: Mutex<Vec<(usize, Result<ChainResult, String>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for index in 0..plan.chains {
            let done = &done;
            scope.spawn(move || {
                let chain = run_chain(plan, density, (x0, index), run);
                if let Ok(mut done) = done.lock() {
                    done.push((index, chain));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, chain)| chain).collect()
}

/// State of one chain.
struct MetropolisChain<'a> {
    density: &'a CompiledExpression,
    stack: Vec<f64>,
    x: Vec<f64>,
    log_density: f64,
    stream: RandomStream,
    /// Cholesky factor of the proposal covariance.
    proposal_cholesky: Vec<Vec<f64>>,
}

fn run_chain(
    plan: &SamplerSettings,
    density: &CompiledExpression,
    (x0, index): (&[f64], usize),
    run: &RunContext,
) -> Result<ChainResult, String> {
    let n = x0.len();
    let shape =
        (0..n).map(|i| (0..n).map(|j| if i == j { plan.proposal_std } else { 0.0 }).collect());
    let mut state = MetropolisChain {
        density,
        stack: Vec::new(),
        x: x0.to_vec(),
        log_density: f64::NAN,
        stream: block_stream(plan.seed, index as u64),
        proposal_cholesky: shape.collect(),
    };
    state.start_chain(index)?;
    state.burn_in(plan, run)?;
    let mut chain = ChainResult::default();
    let count = plan.samples / plan.chains + usize::from(index < plan.samples % plan.chains);
    for step in 0..count * plan.thin {
        if step % 1_024 == 0 {
            run.check_cancelled()?;
        }
        chain.accepted += u64::from(state.run_step());
        chain.steps += 1;
        if step % plan.thin == 0 {
            chain.samples.push(state.x.clone());
        }
    }
    Ok(chain)
}

impl MetropolisChain<'_> {
    /// Starts the first chain at `x0`, all others near it.
    fn start_chain(&mut self, index: usize) -> Result<(), String> {
        self.log_density = self.density.evaluate_f64(&self.x, &mut self.stack);
        if !self.log_density.is_finite() {
            return Err(
                "`log_density` has no finite value at `x0`; start somewhere else".to_owned()
            );
        }
        for _ in 0..if index == 0 { 0 } else { 100 } {
            let near = self.propose_point();
            let log = self.density.evaluate_f64(&near, &mut self.stack);
            if log.is_finite() {
                (self.x, self.log_density) = (near, log);
                break;
            }
        }
        Ok(())
    }

    fn propose_point(&mut self) -> Vec<f64> {
        let n = self.x.len();
        let normal: Vec<f64> = (0..n).map(|_| StandardNormal.sample(&mut self.stream)).collect();
        let moved =
            |i: usize| -> f64 { (0..=i).map(|j| self.proposal_cholesky[i][j] * normal[j]).sum() };
        (0..n).map(|i| self.x[i] + moved(i)).collect()
    }

    /// Returns whether the proposal was accepted. A density that is NaN counts as zero.
    fn run_step(&mut self) -> bool {
        let next = self.propose_point();
        let log = self.density.evaluate_f64(&next, &mut self.stack);
        let chance: f64 = self.stream.random();
        let accepted = log < f64::INFINITY && chance.ln() < log - self.log_density;
        if accepted {
            (self.x, self.log_density) = (next, log);
        }
        accepted
    }

    /// Runs the burn-in. With adaptation, each of ten rounds fits the proposal to the covariance of
    /// the samples, and its size to an acceptance of about a third.
    fn burn_in(&mut self, plan: &SamplerSettings, run: &RunContext) -> Result<(), String> {
        let round = (plan.burnin / 10).max(1);
        let (mut seen, mut accepted, mut scale) = (Vec::new(), 0_usize, 1.0_f64);
        for step in 1..=plan.burnin {
            if step % 1_024 == 0 {
                run.check_cancelled()?;
            }
            accepted += usize::from(self.run_step());
            if !plan.adapt {
                continue;
            }
            seen.push(self.x.clone());
            if step % round == 0 {
                let rate = accepted as f64 / round as f64;
                scale = (scale * ((rate - 0.3) * 2.0).exp()).clamp(1e-6, 1e6);
                let (half, learnt) = (seen.len() / 2, seen.len() >= 20 * self.x.len());
                if !(learnt && self.adapt_proposal(&seen[half..], scale)) {
                    let by = ((rate - 0.3) * 2.0).exp();
                    self.proposal_cholesky.iter_mut().flatten().for_each(|x| *x *= by);
                }
                accepted = 0;
            }
        }
        Ok(())
    }

    /// Sets the proposal to the sample covariance times 2.38² / n: Roberts and Rosenthal.
    fn adapt_proposal(&mut self, seen: &[Vec<f64>], scale: f64) -> bool {
        let all: Vec<&Vec<f64>> = seen.iter().collect();
        let (_, mut matrix) = covariance(&all);
        let n = matrix.len();
        let by = scale * 2.38 * 2.38 / n as f64;
        for (i, row) in matrix.iter_mut().enumerate() {
            for x in row.iter_mut() {
                *x *= by;
            }
            row[i] += 1e-12 + 1e-9 * row[i];
        }
        let lower = crate::gaussian_process::cholesky_factor(&matrix);
        let good = lower.is_some();
        if let Some(lower) = lower {
            self.proposal_cholesky = lower;
        }
        good
    }
}
